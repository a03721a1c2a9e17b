package node

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/topology"
)

const (
	// maxSenseAge is how old a value of the kernel's may be for the laws to count it as known.
	maxSenseAge = 10 * time.Second
	// maxThrottled is the share of its periods in which a pod may be throttled by its own limit and its CPU pressure still be taken for
	// contention: the kernel counts a throttled task as one that waits for a CPU.
	maxThrottled = 0.05
)

// sense hands what was read last to look, and what the laws of CPU and headroom see of it. Without a fresh reading nothing is known, and the laws
// are told so.
func (a *Agent) sense(now time.Time, look func(*sensor)) {
	s := sensor{agent: a, machine: a.options.Machine, demand: a.manager.Demand(), out: advise.Observation{At: now.Sub(a.started), Wall: now}}
	a.observer.mu.Lock()
	defer a.observer.mu.Unlock()
	if now.Sub(a.observer.lastAt) <= maxSenseAge {
		s.seen = a.observer.last
	}
	if s.seen == nil {
		s.seen = &observe.Observation{}
	}
	s.cgroups = make(map[string]*observe.CgroupUse, len(s.seen.Cgroups))
	for i := range s.seen.Cgroups {
		s.cgroups[s.seen.Cgroups[i].Dir] = &s.seen.Cgroups[i]
	}
	s.node()
	s.zones()
	s.pods()
	look(&s)
}

// sensor is one sensing.
type sensor struct {
	agent   *Agent
	machine *topology.Machine
	seen    *observe.Observation
	cgroups map[string]*observe.CgroupUse // by directory
	demand  map[string]int64              // what the pods of each shared pool ask for, in millicores
	out     advise.Observation
}

func (s *sensor) node() {
	m := &s.seen.Node.Memory
	s.out.Node.MemoryTotal, s.out.Node.MemoryAvailable = bytesOf(m.Total), bytesOf(m.Available)
}

// zones fills in what is known of each zone as such; pods adds what pods hold of it.
func (s *sensor) zones() {
	pools := s.agent.manager.PoolZones()
	var demand int64
	for _, milliCPU := range s.demand {
		demand += milliCPU
	}
	all := 0
	for _, p := range pools {
		all += p.Shared.Len() + p.Reclaimed.Len()
	}
	for i, p := range pools {
		z := advise.Zone{
			Divisible: p.Shared.Len() + p.Reclaimed.Len(), Threads: s.machine.Threads(), Lent: p.Reclaimed.Len(),
			SharedUse: s.ofCPUs(p.Shared, busy), SharedDelay: s.ofCPUs(p.Shared, delay), LentUse: s.ofCPUs(p.Reclaimed, busy),
			Reserved: int64(*s.agent.options.Config.ReservedMemory) * topology.Mebibyte,
		}
		if all > 0 {
			const milli = 1000
			z.SharedRequests = advise.Known(float64(demand) / milli * float64(z.Divisible) / float64(all))
		}
		if id := s.machine.NUMA[i].ID; id < len(s.seen.Node.Zones) {
			memory := &s.seen.Node.Zones[id]
			z.MemoryTotal, z.MemoryFree, z.InactiveFile = bytesOf(memory.Total), bytesOf(memory.Free), bytesOf(memory.InactiveFile)
		}
		z.ReclaimedMemory, z.PromisedUse = advise.Known(0), advise.Known(0)
		s.out.Zones = append(s.out.Zones, z)
	}
}

// pods lists the online and the reclaimed pods by name, and adds up what they hold of the zones and the worst that they feel.
func (s *sensor) pods() {
	node := &s.out.Node
	online := false
	for _, uid := range sortedKeys(s.agent.pods) {
		p := s.agent.pods[uid]
		asked, pool, ok := s.agent.manager.Pod(uid)
		if !ok || pool == spec.PoolSystem {
			continue
		}
		use := s.use(p.cgroup)
		id := p.name.Namespace + "/" + p.name.Name
		if pool == spec.PoolReclaimed {
			s.charge(use, func(z *advise.Zone) *advise.Sample { return &z.ReclaimedMemory })
			s.discount(use)
			s.out.Reclaimed = append(s.out.Reclaimed, advise.Reclaimed{
				ID: id, MilliCPU: asked.Reclaimed.MilliCPU, MemoryBytes: asked.Reclaimed.MemoryMiB * topology.Mebibyte,
				CPUUse: rateOf(use.CPU.Usage), RunDelay: s.runDelay(p), Memory: bytesOf(use.Memory.Current),
			})
			continue
		}
		service := advise.Service{ID: id, Pool: pool, CPUUse: rateOf(use.CPU.Usage), CPUPressure: pressureOf(use), Memory: bytesOf(use.Memory.Current)}
		s.steer(uid, p, &service, use)
		s.out.Services = append(s.out.Services, service)
		if pool == "" {
			s.charge(use, func(z *advise.Zone) *advise.Sample { return &z.PromisedUse })
		} else {
			node.CPUPressure = worst(node.CPUPressure, service.CPUPressure)
		}
		node.MemoryPressure = worst(node.MemoryPressure, rateOf(use.MemoryPressure.Some.Avg10))
		online = true
	}
	if !online { // nobody waits
		node.CPUPressure, node.MemoryPressure = advise.Known(0), advise.Known(0)
	}
	for _, h := range s.agent.manager.Held() {
		for z := range s.out.Zones {
			s.out.Zones[z].Promised += int64(h.Grant.Memory[z]) * topology.Mebibyte
		}
	}
	s.steered()
	slices.SortFunc(s.out.Services, func(x, y advise.Service) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(s.out.Reclaimed, func(x, y advise.Reclaimed) int { return cmp.Compare(x.ID, y.ID) })
}

// charge adds what a cgroup holds in each zone to an account there.
func (s *sensor) charge(use *observe.CgroupUse, account func(*advise.Zone) *advise.Sample) {
	for i := range s.out.Zones {
		to := account(&s.out.Zones[i])
		*to = plus(*to, s.heldIn(use, i))
	}
}

// discount takes a reclaimed pod's page cache out of what counts as free: it is among what reclaimed pods hold already.
func (s *sensor) discount(use *observe.CgroupUse) {
	for i := range s.out.Zones {
		z := &s.out.Zones[i]
		if file := bytesOf(s.zoneOf(use, i).File); file.Known {
			z.InactiveFile.Value = max(z.InactiveFile.Value-file.Value, 0)
		}
	}
}

// runDelay is how many of a pod's threads wait for a CPU.
func (s *sensor) runDelay(p *pod) (out advise.Sample) {
	for _, c := range p.containers {
		use := s.cgroups[c.cgroup]
		if use == nil {
			continue
		}
		if v, ok := use.CPU.RunDelay.Within(maxSenseAge); ok {
			out = advise.Known(out.Value + v)
		}
	}
	return out
}

// ofCPUs adds a value of some CPUs up. One that is not known makes the sum so.
func (s *sensor) ofCPUs(cpus topology.CPUSet, of func(*observe.CPU) observe.Sample[float64]) advise.Sample {
	out := advise.Known(0)
	for id := range cpus.All() {
		if id >= len(s.seen.Node.CPUs) {
			return advise.Sample{}
		}
		v, ok := of(&s.seen.Node.CPUs[id]).Within(maxSenseAge)
		if !ok {
			return advise.Sample{}
		}
		out.Value += v
	}
	return out
}

func busy(c *observe.CPU) observe.Sample[float64]  { return c.Busy }
func delay(c *observe.CPU) observe.Sample[float64] { return c.RunDelay }

// pressureOf is the share of time in which a pod waited for a CPU that others had; not known where its own limit throttles it.
func pressureOf(use *observe.CgroupUse) advise.Sample {
	if throttled, ok := use.CPU.ThrottledPeriods.Within(maxSenseAge); ok && throttled > maxThrottled {
		return advise.Sample{}
	}
	return rateOf(use.CPUPressure.Some.Now)
}

// plus is the sum of two samples. A part that is not known makes the sum so.
func plus(a, b advise.Sample) advise.Sample {
	return advise.Sample{Value: a.Value + b.Value, Known: a.Known && b.Known}
}

// worst is the higher of what is known.
func worst(a, b advise.Sample) advise.Sample {
	if !a.Known || b.Known && b.Value > a.Value {
		return b
	}
	return a
}

func rateOf(s observe.Sample[float64]) advise.Sample {
	v, ok := s.Within(maxSenseAge)
	return advise.Sample{Value: v, Known: ok}
}

func bytesOf(s observe.Sample[int64]) advise.Sample {
	v, ok := s.Within(maxSenseAge)
	return advise.Sample{Value: float64(v), Known: ok}
}
