package corun

import "math"

// memory is the machine's, in bytes. The kernel keeps the NUMA nodes even.
type memory struct {
	online, jobs, cache float64
	stalled             bool
}

// What memory does, as shares of all of it.
const (
	// cacheFloor is what page cache is always held: files that are mapped and hot. cacheGrowth is how much files read fill up each second.
	cacheFloor, cacheGrowth = 0.03, 0.0002
	// freeFloor is what the kernel keeps free by dropping cache.
	freeFloor = 0.02
	// stallBelow: with less than this of free memory and droppable cache everybody reclaims for himself.
	stallBelow = 0.01
	// ramp is how quickly jobs touch their memory, by second.
	ramp = 1.0 / 60
	// inactive is the share of the cache beyond its floor that nobody used lately.
	inactive = 0.7
	// steady is the part of a service's working set that does not follow its load.
	steady = 0.8
)

// stepMemory lets a second pass, and returns by how much threads are slower.
func (n *Node) stepMemory(offered []float64) float64 {
	m, all := &n.memory, float64(n.machine.Memory)*float64(n.machine.NUMANodes)
	m.online = 0
	for i := range n.services {
		s := &n.services[i]
		m.online += s.Memory * (steady + (1-steady)*min(offered[i]/s.Request, 1))
	}
	m.jobs = 0
	for i := range n.jobs {
		j := &n.jobs[i]
		j.resides += (j.Memory - j.resides) * ramp
		m.jobs += j.resides
	}
	m.cache = min(m.cache+cacheGrowth*all, max(all*(1-freeFloor)-m.online-m.jobs, cacheFloor*all))
	left := all - m.online - m.jobs - cacheFloor*all
	m.stalled = left < stallBelow*all
	if left < 0 && len(n.jobs) > 0 {
		n.kill()
	}
	if m.stalled {
		n.measured.Stalls++
		return 1 + n.params.Stall
	}
	return 1
}

// kill is the kernel's out-of-memory killer: the job that has most of its amount.
func (n *Node) kill() {
	worst, most := 0, math.Inf(-1)
	for i := range n.jobs {
		if r := n.jobs[i].resides; r > most {
			worst, most = i, r
		}
	}
	n.measured.OOMs++
	n.memory.jobs -= most
	n.seen.killed = append(n.seen.killed, n.jobs[worst].ID)
	n.End(n.jobs[worst].ID)
}

// Killed appends the jobs that the kernel has killed since the last call.
func (n *Node) Killed(list []int64) []int64 {
	list = append(list, n.seen.killed...)
	n.seen.killed = n.seen.killed[:0]
	return list
}
