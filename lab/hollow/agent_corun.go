package hollow

import (
	"math"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/sim/corun"
	"hilbert.dev/hilbert/topology"
)

// Model makes the load of nodes that of package corun: services wait in queues and are late, jobs get done what the CPUs that they are lent allow, and
// both slow each other down. Its functions are called while a node is locked, and must return the same for the same arguments.
type Model struct {
	Machine corun.Machine
	Params  corun.Params
	// Service is what an online pod is. It runs in halves, one in each NUMA node, so NUMANode is not looked at.
	Service func(*runtime.Sandbox) corun.Service
	// Wants is how many CPUs it wants at a time, on an idle machine.
	Wants func(*runtime.Sandbox, time.Time) float64
	// Job is what a reclaimed pod is. Its ID is not looked at.
	Job func(*runtime.Sandbox) corun.Job
}

// Modelled is what a node's pods use and get, as nobody on the node can see it.
type Modelled struct {
	Online, Offline float64 // busy CPUs in the last second
	Waiting         float64 // threads of services that waited
	Lent            int     // CPUs
	Jobs            int
	Measured        corun.Measured
}

// coNode is a corun.Node whose pools are what the node's cpusets say. It is guarded by the lock of its mapKernel.
type coNode struct {
	model   *Model
	machine *corun.Node
	seen    advise.Observation
	next    int64            // ID of the next job
	jobs    map[int64]string // their pods' cgroups
	done    []string         // cgroups of jobs that have done their work
	killed  []string         // and of those that the kernel has killed
	last    Modelled
}

// actuation is how long the kernel takes to move threads to other CPUs, in seconds.
const actuation = 0.5

func newCoNode(m *Model) *coNode {
	return &coNode{model: m, machine: corun.NewNode(&m.Machine, &m.Params, nil, true), jobs: make(map[int64]string)}
}

func (c *coNode) add(p *workPod, s *runtime.Sandbox) {
	p.sandbox = s
	if !p.reclaimed {
		service := c.model.Service(s)
		p.memory = int64(service.Memory)
		for z := range c.model.Machine.NUMANodes {
			half := service
			half.NUMANode, half.Request, half.Memory = z, service.Request/float64(c.model.Machine.NUMANodes), service.Memory/float64(c.model.Machine.NUMANodes)
			c.machine.AddService(half)
		}
		return
	}
	c.next++
	p.job = c.next
	job := c.model.Job(s)
	job.ID, p.memory, p.asked = p.job, int64(job.Memory), job.Demand
	c.jobs[p.job] = p.cgroup
	c.machine.Start(job)
}

// remove ends a pod. before is how many online pods stand before it.
func (c *coNode) remove(p *workPod, before int) {
	if p.reclaimed {
		c.machine.End(p.job)
		delete(c.jobs, p.job)
		return
	}
	for range c.model.Machine.NUMANodes {
		c.machine.RemoveService(before * c.model.Machine.NUMANodes)
	}
}

// step lets a second pass that ends at a time, and makes what happened the rates of pods and CPUs.
func (c *coNode) step(w *work, at time.Time) {
	numaNodes := c.model.Machine.NUMANodes
	lent := w.lentCPUs()
	var offered []float64
	for _, p := range w.pods {
		if p.reclaimed {
			continue
		}
		p.wants = c.model.Wants(p.sandbox, at)
		for range numaNodes {
			offered = append(offered, p.wants/float64(numaNodes))
		}
	}
	c.last = Modelled{Measured: c.last.Measured}
	for z := range numaNodes {
		cpus := w.machine.NUMA[z].CPUs.Intersection(lent).Len()
		c.last.Lent += cpus
		c.machine.Lend(z, cpus/c.model.Machine.Threads, actuation)
	}
	c.last.Online, c.last.Offline = c.machine.Step(offered)
	c.finish()
	c.machine.Observe(&c.seen, at.Sub(w.began), at)
	c.rates(w, lent)
	c.last.Measured, c.last.Jobs = *c.machine.Measured(), c.machine.Jobs()
}

// finish notes the jobs that have come to an end.
func (c *coNode) finish() {
	var ids [2][]int64
	ids[0], ids[1] = c.machine.Done(nil), c.machine.Killed(nil)
	for i, list := range []*[]string{&c.done, &c.killed} {
		for _, id := range ids[i] {
			if cgroup := c.jobs[id]; cgroup != "" {
				*list = append(*list, cgroup)
			}
			delete(c.jobs, id)
		}
	}
}

// rates spreads what was seen over the CPUs and pods, as counters would have it.
func (c *coNode) rates(w *work, lent topology.CPUSet) {
	for i := range w.cpus {
		w.cpus[i].runs, w.cpus[i].waits = 0, 0
	}
	for z := range c.seen.NUMANodes {
		seen := &c.seen.NUMANodes[z]
		reclaimed := w.machine.NUMA[z].CPUs.Intersection(lent)
		shared := w.machine.NUMA[z].CPUs.Minus(reclaimed)
		w.spread(shared, seen.SharedUse.Value, seen.SharedDelay.Value)
		delay := 0.0
		if total := len(c.seen.NUMANodes); total > 0 {
			for i := range c.seen.Reclaimed {
				delay += c.seen.Reclaimed[i].RunDelay.Value / float64(total)
			}
		}
		w.spread(reclaimed, seen.LentUse.Value, delay)
		c.last.Waiting += seen.SharedDelay.Value
	}
	halves, service := c.model.Machine.NUMANodes, 0
	byID := make(map[string]*advise.Reclaimed, len(c.seen.Reclaimed))
	for i := range c.seen.Reclaimed {
		byID[c.seen.Reclaimed[i].ID] = &c.seen.Reclaimed[i]
	}
	for _, p := range w.pods {
		p.gets, p.waits = 0, 0
		if p.reclaimed {
			if r := byID[jobName(p.job)]; r != nil {
				p.gets, p.waits, p.memory = r.CPUUse.Value, r.RunDelay.Value, int64(r.Memory.Value)
			}
			continue
		}
		for range halves {
			seen := &c.seen.Services[service]
			p.gets += seen.CPUUse.Value
			p.waits += pressureWaits(seen.CPUPressure.Value)
			service++
		}
	}
	w.now = Work{OnlineGets: c.last.Online, ReclaimedGets: c.last.Offline, OnlineWants: c.last.Online + c.last.Waiting}
}

// jobName is how an observation names a job.
func jobName(id int64) string { return strconv.FormatInt(id, 10) }

// pressureWaits is how many threads wait where something waits for this share of the time.
func pressureWaits(share float64) float64 { return -math.Log1p(-min(share, 0.999999)) }

// spread makes so many of a set's CPUs busy, and so many threads wait there.
func (w *work) spread(set topology.CPUSet, busy, waiting float64) {
	n := float64(set.Len())
	for cpu := range set.All() {
		w.cpus[cpu].runs, w.cpus[cpu].waits = min(busy/n, 1), waiting/n
	}
}

// lentCPUs are those on which reclaimed pods run.
func (w *work) lentCPUs() (out topology.CPUSet) {
	for _, p := range w.pods {
		if p.reclaimed {
			out = out.Union(p.cpus)
		}
	}
	return out
}

// Modelled is what the node's pods use and get. The node must have a Model. Time passes up to now first.
func (a *Agent) Modelled() (now Modelled) {
	a.kernel.change(func(*work) {})
	a.kernel.change(func(w *work) { now = w.co.last })
	return now
}

// CloseWindow ends a window of the services' time: how many of the services' halves missed their target in it, and how many there are.
func (a *Agent) CloseWindow() (missed, of int) {
	a.kernel.change(func(w *work) {
		missed = w.co.machine.CloseWindow()
		for _, p := range w.pods {
			if !p.reclaimed {
				of += w.co.model.Machine.NUMANodes
			}
		}
	})
	return missed, of
}

// Forget sets what was measured to zero.
func (a *Agent) Forget() {
	a.kernel.change(func(w *work) {
		w.co.machine.Forget()
		w.co.last.Measured = corun.Measured{}
	})
}

// Ended takes the pods whose jobs have done their work, and those whose jobs the kernel has killed, since the last call.
func (a *Agent) Ended() (done, killed []types.UID) {
	var lists [2][]string
	a.kernel.change(func(w *work) {
		lists = [2][]string{w.co.done, w.co.killed}
		w.co.done, w.co.killed = nil, nil
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid := range a.running {
		cgroup := a.running[uid].sandbox.Cgroup
		if slices.Contains(lists[0], cgroup) {
			done = append(done, uid)
		}
		if slices.Contains(lists[1], cgroup) {
			killed = append(killed, uid)
		}
	}
	return done, killed
}
