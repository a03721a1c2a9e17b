package allocate

import (
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/cores"
)

// goesFirst is the oom_score_adj of reclaimed pods: when memory runs out, they go first.
const goesFirst = 1000

// cpu gives cores, and keeps the pools.
type cpu struct {
	m    *Manager
	uses map[string]use // by pool
}

// use is who runs in a pool.
type use struct {
	pods  int
	milli int64
}

func newCPU(m *Manager) resource { return &cpu{m: m, uses: make(map[string]use)} }

// hints are the NUMA nodes that have a core to give, or all of theirs if the pod wants NUMA nodes alone. Of which the promise takes no CPU does
// not matter to it.
func (c *cpu) hints(p *pod) uint8 {
	threads := int32(max(c.m.alloc.Shape().Threads, 1))
	return c.m.openNUMANodes(func(z int, whole topology.NUMACapacity, left topology.NUMARoom) bool {
		switch {
		case p.Promise.Memory[z] > 0 && p.Promise.CPUs[z] == 0:
			return true
		case p.Request.Binding == topology.Exclusive:
			return left.CPUs == int32(whole.CPUs)
		}
		return left.CPUs >= threads
	})
}

func (c *cpu) admit(p *pod)   { c.count(p, 1) }
func (c *cpu) release(p *pod) { c.count(p, -1) }

func (c *cpu) count(p *pod, sign int) {
	if p.pool == "" {
		return
	}
	u := c.uses[p.pool]
	u.pods += sign
	u.milli += int64(sign) * p.MilliCPU
	c.uses[p.pool] = u
	if u.pods == 0 {
		delete(c.uses, p.pool)
	}
}

// reconcile divides what nobody holds.
func (c *cpu) reconcile() {
	var d cores.Division
	for pool, u := range c.uses {
		if pool != spec.PoolReclaimed && pool != spec.PoolSystem {
			milli, told := c.m.demands[pool]
			if !told {
				milli = u.milli
			}
			d.Shared = append(d.Shared, cores.PoolDemand{Name: pool, MilliCPU: milli})
		}
	}
	if c.uses[spec.PoolReclaimed].pods > 0 {
		for z := range d.Reclaimed {
			d.Reclaimed[z] = max(c.m.wanted[z], c.m.params.ReclaimedCores)
		}
	}
	c.m.alloc.Divide(d)
}

func (c *cpu) place(p *pod, out *Placement) {
	if p.pool == spec.PoolReclaimed {
		c.yield(p, out)
	}
	if h, ok := c.m.alloc.Holding(p.UID); ok {
		out.CPUs = h.CPUs
		return
	}
	pools := c.m.alloc.Pools()
	switch p.pool {
	case spec.PoolReclaimed:
		out.CPUs = c.m.runs(&pools, pools.Reclaimed)
	case spec.PoolSystem:
		out.CPUs = c.m.runs(&pools, pools.System)
	default:
		out.CPUs = c.m.runs(&pools, pools.Shared[p.pool])
	}
}

// yield has a reclaimed pod yield. Where it shares CPUs with others it is idle; on CPUs of its pool it has a weight by what it asked for, because
// among idle pods one that asked for eight CPUs gets no more than one that asked for one.
func (c *cpu) yield(p *pod, out *Placement) {
	out.OOMScoreAdj = new(goesFirst)
	out.Idle = c.m.suppress || p.Reclaimed.MilliCPU == 0 || c.m.alloc.Pools().Reclaimed.IsEmpty()
	if !out.Idle {
		out.Weight = int(min(max(p.Reclaimed.MilliCPU/milliPerWeight, minWeight), maxWeight))
	}
}

// A cpu.weight is a number from 1 to 10000; a hundredth of a CPU makes 1 of it.
const minWeight, maxWeight, milliPerWeight = 1, 10_000, 10

// runs is what the pods of a pool run on. Where the kubelet rules that is never what it gave to somebody alone: if nothing else is left, it is
// nothing, and the kubelet knows where they run.
func (m *Manager) runs(pools *cores.Pools, part topology.CPUSet) topology.CPUSet {
	cpus := pools.Runs(part)
	if m.params.Mode == spec.ModeKubelet && !cpus.Intersection(m.alloc.Held()).IsEmpty() {
		return topology.CPUSet{}
	}
	return cpus
}
