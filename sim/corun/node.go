package corun

import (
	"math"
	"slices"
	"strconv"
)

// Node is one machine and what runs on it.
type Node struct {
	machine   *Machine
	params    *Params
	pooled    bool
	services  []service
	jobs      []running
	numaNodes [MaxNUMANodes]numa
	progress  float64 // seconds at full speed since the beginning; jobs share one pace
	nextDone  float64 // the least doneAt
	sum       demands
	throttled [MaxNUMANodes]throttled
	memory    memory
	requests  float64 // of the services, in CPUs
	window    []window
	measured  Measured
	seen      seen
	cycles    [MaxNUMANodes]float64 // CyclesPerInstruction
}

// service is a Service and what a step has found of it.
type service struct {
	Service
	perSecond float64 // requests that one CPU serves on an idle machine
	offered   float64 // CPUs wanted in the last step, on an idle machine
}

// running is a job and where it stands.
type running struct {
	Job
	name    string  // ID in letters
	doneAt  float64 // of Node.progress
	resides float64 // bytes it has touched
	began   float64
}

// demands are the sums over the jobs.
type demands struct{ threads, cache, memory float64 }

// throttled is what jobs want of a NUMA node's memory, by sum of their threads, and how fast they are for it.
type throttled struct{ most, bandwidth, pace float64 }

// NUMA node is one NUMA node's state.
type numa struct {
	lent, next int     // logical CPUs of the reclaimed pool: now, and after the change under way
	delay      float64 // of that change, in seconds into the coming step

	backlog          float64 // work that waits, in CPU seconds of an idle machine
	use              float64 // busy share of the shared pool's CPUs
	online, offline  float64 // busy CPUs
	bandwidth, cache float64 // wanted by both in the last step
	jobBandwidth     float64 // of bandwidth, by jobs
	waiting          float64 // threads
	jobSpeed         float64 // of one thread, to that on an idle machine
	shed             float64 // work given up in the last step
	cycles           float64 // that a service's instruction took in the last step, to those on an idle machine
}

// Measured is what nobody on the node can see: the truth that an experiment reports.
type Measured struct {
	// Seconds and Late count service seconds, and those in which more than 1 % of the requests were late. Windows and Missed are the same by
	// windows.
	Seconds, Late   int64
	Windows, Missed int64
	// Online and Offline are busy CPU seconds; Work is seconds at full speed, times threads, that jobs got done. Shed is work of services given up,
	// in CPU seconds of an idle machine, of Offered.
	Online, Offline, Work, Shed, Offered float64
	// OOMs are jobs that the kernel killed; Stalls are seconds with memory all but gone.
	OOMs, Stalls int64
}

// window sums up the requests of a service.
type window struct{ requests, late float64 }

// NewNode returns a machine with these services and no jobs. pooled: reclaimed jobs run on the cores that are lent; else they run wherever
// services do, with Params.Weight.
func NewNode(m *Machine, p *Params, services []Service, pooled bool) *Node {
	n := &Node{machine: m, params: p, pooled: pooled, window: make([]window, len(services)), nextDone: math.Inf(1)}
	for _, s := range services {
		n.services = append(n.services, service{Service: s, perSecond: 1 / s.Mean})
		n.requests += s.Request
	}
	n.memory.cache = cacheFloor * float64(m.Memory) * float64(m.NUMANodes)
	n.count()
	return n
}

// AddService lets another online pod run. It stands behind those that run already.
func (n *Node) AddService(s Service) {
	n.services, n.window = append(n.services, service{Service: s, perSecond: 1 / s.Mean}), append(n.window, window{})
	n.requests += s.Request
}

// RemoveService ends the i-th online pod. Those behind it move up.
func (n *Node) RemoveService(i int) {
	n.requests -= n.services[i].Request
	n.services, n.window = slices.Delete(n.services, i, i+1), slices.Delete(n.window, i, i+1)
}

// Lend makes the reclaimed pool of a NUMA node this many cores. The change takes delay seconds of the coming step.
func (n *Node) Lend(z, cores int, delay float64) {
	numa := &n.numaNodes[z]
	cpus := min(max(cores, 0)*n.machine.Threads, n.machine.Divisible())
	if cpus != numa.lent {
		numa.next, numa.delay = cpus, min(max(delay, 0), 1)
		return
	}
	numa.next, numa.delay = cpus, 0
}

// Lent is the logical CPUs that the NUMA node's reclaimed pool has, a change under way included.
func (n *Node) Lent(z int) int { return n.numaNodes[z].next }

// Throttle lets each of the jobs' busy CPUs move no more than this in GB/s, in one NUMA node; 0: what it wants. That is what a processor's percentage does: it delays the requests of each CPU,
// so that more CPUs move more all the same, and one that wants less is no slower.
func (n *Node) Throttle(z int, most float64) {
	n.throttled[z].most = most
	n.count()
}

// MemoryTraffic is what was moved in a NUMA node's memory in the last step, in GB/s: by all, and by jobs. What is wanted beyond what the memory carries is not moved.
func (n *Node) MemoryTraffic(z int) (all, jobs float64) {
	numa := &n.numaNodes[z]
	if numa.bandwidth <= n.machine.Bandwidth {
		return numa.bandwidth, numa.jobBandwidth
	}
	return n.machine.Bandwidth, numa.jobBandwidth * n.machine.Bandwidth / numa.bandwidth
}

// Start lets a job run.
func (n *Node) Start(j Job) {
	n.jobs = append(n.jobs, running{Job: j, name: strconv.FormatInt(j.ID, 10), doneAt: n.progress + j.Work, began: n.progress})
	n.count()
}

// End takes a job off the machine, done or not. It returns the seconds at full speed that it had; false: it does not run here.
func (n *Node) End(id int64) (float64, bool) {
	for i := range n.jobs {
		if j := &n.jobs[i]; j.ID == id {
			had := min(n.progress-j.began, j.Work)
			n.jobs = append(n.jobs[:i], n.jobs[i+1:]...)
			n.count()
			return had, true
		}
	}
	return 0, false
}

// Done appends the jobs that have done their work and takes them off.
func (n *Node) Done(list []int64) []int64 {
	if n.progress < n.nextDone {
		return list
	}
	kept := n.jobs[:0]
	for _, j := range n.jobs {
		if j.doneAt <= n.progress {
			list = append(list, j.ID)
		} else {
			kept = append(kept, j)
		}
	}
	n.jobs = kept
	n.count()
	return list
}

// Jobs is how many run.
func (n *Node) Jobs() int { return len(n.jobs) }

// count sums the jobs up.
func (n *Node) count() {
	n.sum, n.nextDone = demands{}, math.Inf(1)
	for i := range n.jobs {
		j := &n.jobs[i]
		n.sum.threads += j.Demand
		n.sum.cache += j.Demand * j.Cache
		n.sum.memory += j.Memory
		n.nextDone = min(n.nextDone, j.doneAt)
	}
	for z := range n.throttled {
		if z > 0 && n.throttled[z].most == n.throttled[0].most {
			n.throttled[z] = n.throttled[0]
			continue
		}
		n.throttled[z].count(n.jobs)
	}
}

// count sums the jobs up.
func (t *throttled) count(jobs []running) {
	t.bandwidth, t.pace = 0, 1
	threads, fast := 0.0, 0.0
	for i := range jobs {
		j := &jobs[i]
		gets := j.Bandwidth
		if t.most > 0 && gets > t.most {
			gets = t.most
			fast += j.Demand * gets / j.Bandwidth
		} else {
			fast += j.Demand
		}
		threads += j.Demand
		t.bandwidth += j.Demand * gets
	}
	if t.most > 0 && threads > 0 {
		t.pace = fast / threads
	}
}

// Measured returns what was measured since the beginning.
func (n *Node) Measured() *Measured { return &n.measured }

// CloseWindow ends a window of service time, in which a service misses its target if more than 1 % of its requests were late. It returns how many
// of the services missed.
func (n *Node) CloseWindow() int {
	missed := 0
	for i := range n.window {
		w := &n.window[i]
		n.measured.Windows++
		if w.late > lateShare*w.requests {
			missed++
		}
		*w = window{}
	}
	n.measured.Missed += int64(missed)
	return missed
}

// lateShare is the share of requests that may exceed a target of the 99th percentile.
const lateShare = 0.01

// Forget sets what was measured to zero, at the end of a warm-up.
func (n *Node) Forget() {
	n.measured = Measured{}
	clear(n.window)
}
