package corun

import (
	"math"
	"strconv"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// seen is what counters have counted since the last look.
type seen struct {
	steps  int
	zones  [MaxZones]counted
	killed []int64
}

// counted are sums over steps.
type counted struct{ sharedUse, waiting, lentUse float64 }

func (s *seen) add(z int, zone *zone) {
	t := &s.zones[z]
	t.sharedUse += zone.online
	t.waiting += zone.waiting
	t.lentUse += zone.offline
}

// Observe fills in what an agent sees: means since it looked last. It reads what kernel counters would say, and forgets it. The observation's slices
// are used again.
func (n *Node) Observe(o *advise.Observation, at time.Duration, wall time.Time) {
	o.At, o.Wall = at, wall
	o.Zones = resize(o.Zones, n.machine.Zones)
	steps := float64(max(n.seen.steps, 1))
	all := float64(n.machine.Memory) * float64(n.machine.Zones)
	zones := float64(n.machine.Zones)
	free := max(all-n.memory.online-n.memory.jobs-n.memory.cache, 0)
	dropped := max(n.memory.cache-cacheFloor*all, 0)
	for z := range o.Zones {
		t := &n.seen.zones[z]
		o.Zones[z] = advise.Zone{
			Divisible: n.machine.Divisible(), Threads: n.machine.Threads, Lent: n.zones[z].next,
			SharedUse: advise.Known(t.sharedUse / steps), SharedDelay: advise.Known(t.waiting / steps), LentUse: advise.Known(t.lentUse / steps),
			SharedRequests:  advise.Known(n.requests / zones),
			MemoryTotal:     advise.Known(float64(n.machine.Memory)),
			MemoryFree:      advise.Known(free / zones),
			InactiveFile:    advise.Known(dropped * inactive / zones),
			ReclaimedMemory: advise.Known(n.memory.jobs / zones),
		}
	}
	n.observeNode(&o.Node, all, free+dropped)
	n.observePods(o, steps)
	n.seen = seen{killed: n.seen.killed}
}

func (n *Node) observeNode(o *advise.Node, all, available float64) {
	*o = advise.Node{
		MemoryTotal: advise.Known(all), MemoryAvailable: advise.Known(available), MemoryPressure: advise.Known(0), CPUPressure: advise.Known(0),
	}
	if n.memory.stalled {
		o.MemoryPressure.Value = 1
	}
}

// observePods tells of each pod. A service's part in what waits is its part in the zone's load; some of it waits for the share of time in
// which a Poisson number of that mean is not zero.
func (n *Node) observePods(o *advise.Observation, steps float64) {
	var work [MaxZones]float64
	for i := range n.services {
		work[n.services[i].Zone] += n.services[i].offered
	}
	o.Services = resize(o.Services, len(n.services))
	for i := range n.services {
		s := &n.services[i]
		part, waiting := 0.0, 0.0
		if work[s.Zone] > 0 {
			part = s.offered / work[s.Zone]
			waiting = n.seen.zones[s.Zone].waiting / steps * part
		}
		pressure := 1 - math.Exp(-waiting)
		o.Node.CPUPressure.Value = max(o.Node.CPUPressure.Value, pressure)
		seen := &o.Services[i]
		if seen.ID == "" {
			seen.ID, seen.Pool = "service-"+strconv.Itoa(i), "share"
		}
		seen.CPUUse = advise.Known(n.seen.zones[s.Zone].sharedUse / steps * part)
		seen.CPUPressure, seen.Memory = advise.Known(pressure), advise.Known(s.Memory)
	}
	used, delay := 0.0, 0.0
	if n.sum.threads > 0 {
		for z := range n.machine.Zones {
			used += n.seen.zones[z].lentUse
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
