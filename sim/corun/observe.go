package corun

import (
	"math"
	"strconv"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// seen is what counters have counted since the last look.
type seen struct {
	steps     int
	numaNodes [MaxNUMANodes]counted
	killed    []int64
}

// counted are sums over steps.
type counted struct{ sharedUse, waiting, lentUse, cycles float64 }

func (s *seen) add(z int, numa *numa) {
	t := &s.numaNodes[z]
	t.sharedUse += numa.online
	t.waiting += numa.waiting
	t.lentUse += numa.offline
	t.cycles += numa.cycles
}

// Observe fills in what an agent sees: means since it looked last. It reads what kernel counters would say, and forgets it. The observation's slices
// are used again.
func (n *Node) Observe(o *advise.Observation, at time.Duration, wall time.Time) {
	o.At, o.Wall = at, wall
	o.NUMANodes = resize(o.NUMANodes, n.machine.NUMANodes)
	steps := float64(max(n.seen.steps, 1))
	all := float64(n.machine.Memory) * float64(n.machine.NUMANodes)
	numaNodes := float64(n.machine.NUMANodes)
	free := max(all-n.memory.online-n.memory.jobs-n.memory.cache, 0)
	dropped := max(n.memory.cache-cacheFloor*all, 0)
	for z := range o.NUMANodes {
		t := &n.seen.numaNodes[z]
		n.cycles[z] = t.cycles / steps
		o.NUMANodes[z] = advise.NUMANode{
			Divisible: n.machine.Divisible(), Threads: n.machine.Threads, Lent: n.numaNodes[z].next,
			SharedUse: advise.Known(t.sharedUse / steps), SharedDelay: advise.Known(t.waiting / steps), LentUse: advise.Known(t.lentUse / steps),
			SharedRequests:  advise.Known(n.requests / numaNodes),
			MemoryTotal:     advise.Known(float64(n.machine.Memory)),
			MemoryFree:      advise.Known(free / numaNodes),
			InactiveFile:    advise.Known(dropped * inactive / numaNodes),
			ReclaimedMemory: advise.Known(n.memory.jobs / numaNodes),
		}
	}
	n.observeNode(&o.Node, all, free+dropped)
	n.observePods(o, steps)
	n.seen = seen{killed: n.seen.killed}
}

// CyclesPerInstruction is what the processor's counters say of the i-th service, to those on an idle machine: the mean that the last Observe looked back on.
func (n *Node) CyclesPerInstruction(i int) float64 { return n.cycles[n.services[i].NUMANode] }

func (n *Node) observeNode(o *advise.Node, all, available float64) {
	*o = advise.Node{
		MemoryTotal: advise.Known(all), MemoryAvailable: advise.Known(available), MemoryPressure: advise.Known(0), CPUPressure: advise.Known(0),
	}
	if n.memory.stalled {
		o.MemoryPressure.Value = 1
	}
}

// observePods tells of each pod. A service's part in what waits is its part in the NUMA node's load; some of it waits for the share of time in
// which a Poisson number of that mean is not zero.
func (n *Node) observePods(o *advise.Observation, steps float64) {
	var work [MaxNUMANodes]float64
	for i := range n.services {
		work[n.services[i].NUMANode] += n.services[i].offered
	}
	o.Services = resize(o.Services, len(n.services))
	for i := range n.services {
		s := &n.services[i]
		part, waiting := 0.0, 0.0
		if work[s.NUMANode] > 0 {
			part = s.offered / work[s.NUMANode]
			waiting = n.seen.numaNodes[s.NUMANode].waiting / steps * part
		}
		pressure := 1 - math.Exp(-waiting)
		o.Node.CPUPressure.Value = max(o.Node.CPUPressure.Value, pressure)
		seen := &o.Services[i]
		if seen.ID == "" {
			seen.ID, seen.Pool = "service-"+strconv.Itoa(i), "share"
		}
		seen.CPUUse = advise.Known(n.seen.numaNodes[s.NUMANode].sharedUse / steps * part)
		seen.CPUPressure, seen.Memory = advise.Known(pressure), advise.Known(s.Memory)
	}
	used, delay := 0.0, 0.0
	if n.sum.threads > 0 {
		for z := range n.machine.NUMANodes {
			used += n.seen.numaNodes[z].lentUse
		}
		used /= steps * n.sum.threads
		delay = max(1-used, 0)
	}
	o.Reclaimed = resize(o.Reclaimed, len(n.jobs))
	for i := range n.jobs {
		j := &n.jobs[i]
		o.Reclaimed[i] = advise.Reclaimed{
			ID: j.name, MilliCPU: j.MilliCPU, MemoryBytes: j.MemoryBytes,
			CPUUse: advise.Known(used * j.Demand), RunDelay: advise.Known(delay * j.Demand), Memory: advise.Known(j.resides),
		}
	}
}

func resize[T any](list []T, n int) []T {
	if cap(list) < n {
		grown := make([]T, n)
		copy(grown, list[:cap(list)])
		return grown
	}
	return list[:n]
}
