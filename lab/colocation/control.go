package colocation

import (
	"time"

	"hilbert.dev/hilbert/lab/report"
	"hilbert.dev/hilbert/sim/corun"
)

// control is the same morning without lending: the same machines with the same services on them, and the same stream of jobs as ordinary pods, each on the
// first machine that has as much left as it asks for.
type control struct {
	load  *load
	nodes []*controlNode
	jobs  int // drawn so far
	id    int64

	online, offline float64 // CPU seconds
	done            int
	missed, of      int
}

// controlNode is a machine and what is left of its requests.
type controlNode struct {
	machine  *corun.Node
	services []placed
	cpus     int
	bytes    int64
	held     map[int64]jobKind
	offered  []float64
}

// placed is a service's pod.
type placed struct {
	name string
	app  int
}

func newControl(l *load, nodes [][]placed, params *corun.Params, m *corun.Machine) *control {
	c := &control{load: l}
	for _, services := range nodes {
		n := &controlNode{
			machine: corun.NewNode(m, params, nil, false), services: services, held: make(map[int64]jobKind),
			cpus:  m.CPUs() - int(float64(len(services))*serviceCPUs+0.5),
			bytes: m.Memory*int64(m.NUMANodes) - int64(len(services))*serviceGiB*gibi,
		}
		for _, s := range services {
			service := l.service(s.name)
			service.Request, service.Memory = service.Request/float64(m.NUMANodes), service.Memory/float64(m.NUMANodes)
			for z := range m.NUMANodes {
				service.NUMANode = z
				n.machine.AddService(service)
			}
		}
		c.nodes = append(c.nodes, n)
	}
	return c
}

// step lets a second pass that ends at a time. It returns the busy CPUs.
func (c *control) step(at time.Time) (busy float64) {
	for _, n := range c.nodes {
		n.offered = n.offered[:0]
		halves := float64(machineNUMANodes)
		for _, s := range n.services {
			wants := c.load.wants(s.name, s.app, at)
			for range machineNUMANodes {
				n.offered = append(n.offered, wants/halves)
			}
		}
		online, offline := n.machine.Step(n.offered)
		c.online, c.offline, busy = c.online+online, c.offline+offline, busy+online+offline
		killed := n.machine.Killed(nil)
		for i, id := range n.machine.Done(killed) {
			k := n.held[id]
			n.cpus, n.bytes = n.cpus+k.cpus, n.bytes+int64(k.gib)*gibi
			delete(n.held, id)
			if i >= len(killed) {
				c.done++
			}
		}
	}
	c.place()
	return busy
}

// machineNUMANodes is of each machine.
const machineNUMANodes = 2

// place starts jobs where they fit. Of the next few, those that fit nowhere wait.
func (c *control) place() {
	for _, n := range c.nodes {
		for tries := 0; tries < len(jobKinds); tries++ {
			k := jobKinds[(c.jobs+tries)%len(jobKinds)]
			if k.cpus > n.cpus || int64(k.gib)*gibi > n.bytes {
				continue
			}
			job := c.load.job(jobName("control", c.jobs), k)
			c.id++
			job.ID = c.id
			n.machine.Start(job)
			n.held[c.id] = k
			n.cpus, n.bytes = n.cpus-k.cpus, n.bytes-int64(k.gib)*gibi
			c.jobs++
			tries = -1
		}
	}
}

// closeWindow ends a minute: how many percent of the services missed their target.
func (c *control) closeWindow() float64 {
	missed, of := 0, 0
	for _, n := range c.nodes {
		missed += n.machine.CloseWindow()
		of += len(n.services) * machineNUMANodes
	}
	c.missed, c.of = c.missed+missed, c.of+of
	return percent(float64(missed), float64(of))
}

// forget sets what was measured to zero.
func (c *control) forget() {
	for _, n := range c.nodes {
		n.machine.Forget()
	}
	c.online, c.offline, c.done, c.missed, c.of = 0, 0, 0, 0, 0
}

// side is what it came to.
func (c *control) side(cpuSeconds float64) report.Side {
	work := 0.0
	for _, n := range c.nodes {
		work += n.machine.Measured().Work
	}
	return account{c.online, c.offline, work, c.done, c.missed, c.of}.side(cpuSeconds)
}
