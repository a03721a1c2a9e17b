package allocate

import (
	"cmp"
	"maps"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/cores"
)

// Pools divides the CPUs that no pod holds between the pools. It owns what the laws want of the pools, and what runs in each. For example, of eight free CPUs
// the laws want two cores lent: the reclaimed pool gets two whole cores, if a reclaimed pod is there to use them, and the shared pools the rest.
type Pools struct {
	capacity *capacity
	pods     *pods
	uses     map[string]use             // by pool
	wanted   [topology.MaxNUMANodes]int // as of SetReclaimed
	demands  map[string]int64           // as of SetDemands
	suppress bool
}

// use is how many pods run in a pool, and what they request.
type use struct {
	pods      int
	milli     int64
	intensive int64 // of milli, what pods request that load the memory
}

// SetReclaimed says how many cores the reclaimed pool should have in each NUMA node, at the least Params.ReclaimedCores. Without reclaimed pods it
// has none, whatever is wanted.
func (ps *Pools) SetReclaimed(cores [topology.MaxNUMANodes]int) {
	ps.wanted = cores
	ps.reconcile()
}

// SetDemands says what shared pools should have, in millicores. More than their pods request they get of what the requests of others leave. A pool that is not
// named, and SharePool, have what their pods request, or the rest.
func (ps *Pools) SetDemands(milliCPU map[string]int64) {
	ps.demands = maps.Clone(milliCPU)
	ps.reconcile()
}

// Suppress says whether reclaimed pods are idle even on CPUs that they share with no other pod.
func (ps *Pools) Suppress(yes bool) { ps.suppress = yes }

// Suppressed reports whether they are.
func (ps *Pools) Suppressed() bool { return ps.suppress }

// SetMeasured says which pods were measured to load the memory, by UID. Those that say nothing of it themselves and hold nothing of NUMA nodes are treated as if they had said so. It reports
// whether that is another set than before.
func (ps *Pools) SetMeasured(uids []string) (changed bool) {
	for uid, p := range ps.pods.known {
		is := slices.Contains(uids, uid)
		if is == p.measured {
			continue
		}
		ps.release(p)
		p.measured, changed = is, true
		ps.admit(p)
	}
	return changed
}

// Measured reports whether a pod was measured to load the memory.
func (ps *Pools) Measured(uid string) bool {
	p := ps.pods.known[uid]
	return p != nil && p.measured
}

// PoolNUMANode is how the CPUs of a NUMA node are divided between pools.
type PoolNUMANode struct {
	Shared, Reclaimed topology.CPUSet
}

// NUMANodes are the pools' CPUs by NUMA node. CPUs that a pod holds, reserved ones, and those of NUMA nodes that one pod has alone are in neither.
func (ps *Pools) NUMANodes() []PoolNUMANode {
	pools := ps.capacity.alloc.Pools()
	var shared topology.CPUSet
	for _, set := range pools.Shared {
		shared = shared.Union(set)
	}
	out := make([]PoolNUMANode, ps.capacity.alloc.Shape().NUMANodes)
	for z := range out {
		numa := ps.capacity.machine.NUMA[z].CPUs
		out[z] = PoolNUMANode{Shared: shared.Intersection(numa), Reclaimed: pools.Reclaimed.Intersection(numa)}
	}
	return out
}

// Bound is what pods that are bound request of the shared pools in each NUMA node, in CPUs.
func (ps *Pools) Bound() [topology.MaxNUMANodes]int { return ps.capacity.alloc.Bound() }

// Demand is what the pods of each shared pool request together, in millicores.
func (ps *Pools) Demand() map[string]int64 {
	milliCPU := make(map[string]int64)
	for _, p := range ps.pods.known {
		if p.pool != "" && p.pool != spec.PoolReclaimed && p.pool != spec.PoolSystem {
			milliCPU[p.pool] += p.MilliCPU
		}
	}
	return milliCPU
}

// List lists the pools that have CPUs or pods, by name.
func (ps *Pools) List() (out []Pool) {
	count := make(map[string]int)
	for _, p := range ps.pods.known {
		if p.pool != "" {
			count[p.pool]++
		}
	}
	pools := ps.capacity.alloc.Pools()
	parts := maps.Clone(pools.Shared)
	parts[spec.PoolReclaimed], parts[spec.PoolSystem] = pools.Reclaimed, pools.System
	for name := range ps.uses {
		if _, known := parts[name]; !known {
			parts[name] = pools.Of(name) // it is inside share
		}
	}
	for name, cpus := range parts {
		if !cpus.IsEmpty() || count[name] > 0 {
			out = append(out, Pool{Name: name, CPUs: ps.capacity.runs(&pools, cpus), Pods: count[name]})
		}
	}
	slices.SortFunc(out, func(x, y Pool) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// hints are the NUMA nodes that have a core to give, or a CPU to share, or all of theirs if the pod wants NUMA nodes alone. A NUMA node
// of which the promise takes no CPU does not matter here.
func (ps *Pools) hints(p *pod) uint8 {
	least := int32(max(ps.capacity.alloc.Shape().Threads, 1))
	if p.Request.Binding == topology.BoundShared {
		least = 1
	}
	return ps.capacity.usable(func(z int, whole topology.NUMACapacity, left topology.NUMARoom) bool {
		switch {
		case p.Promise.Memory[z] > 0 && p.Promise.CPUs[z] == 0:
			return true
		case p.Request.Binding == topology.Exclusive:
			return left.CPUs == int32(whole.CPUs)
		}
		return left.CPUs >= least
	})
}

func (ps *Pools) admit(p *pod)   { ps.count(p, 1) }
func (ps *Pools) release(p *pod) { ps.count(p, -1) }

func (ps *Pools) count(p *pod, sign int) {
	if p.pool == "" {
		return
	}
	u := ps.uses[p.pool]
	u.pods += sign
	u.milli += int64(sign) * p.MilliCPU
	if p.loads() && !p.holds() {
		u.intensive += int64(sign) * p.MilliCPU
	}
	ps.uses[p.pool] = u
	if u.pods == 0 {
		delete(ps.uses, p.pool)
	}
}

// reconcile divides the CPUs that no pod holds.
func (ps *Pools) reconcile() {
	var d cores.Division
	for pool, u := range ps.uses {
		if pool != spec.PoolReclaimed && pool != spec.PoolSystem {
			wants, told := ps.demands[pool]
			if !told {
				wants = u.milli
			}
			d.Shared = append(d.Shared, cores.PoolDemand{Name: pool, MilliCPU: u.milli, WantsMilliCPU: wants})
		}
	}
	if ps.uses[spec.PoolReclaimed].pods > 0 {
		for z := range d.Reclaimed {
			d.Reclaimed[z] = max(ps.wanted[z], ps.capacity.params.ReclaimedCores)
		}
	}
	ps.capacity.alloc.Divide(d)
}

func (ps *Pools) place(p *pod, out *Placement) {
	if p.pool == spec.PoolReclaimed {
		ps.yield(p, out)
	}
	if h, ok := ps.capacity.alloc.Holding(p.UID); ok {
		if out.CPUs = h.CPUs; p.pool != "" {
			out.CPUs = ps.capacity.alloc.RunsIn(&h.Grant)
		}
		return
	}
	out.CPUs, _ = ps.separated(p, ps.runs(p))
}

// runs is what the pods of a pod's pool run on.
func (ps *Pools) runs(p *pod) topology.CPUSet {
	pools := ps.capacity.alloc.Pools()
	switch p.pool {
	case spec.PoolReclaimed:
		return ps.capacity.runs(&pools, pools.Reclaimed)
	case spec.PoolSystem:
		return ps.capacity.runs(&pools, pools.System)
	}
	return ps.capacity.runs(&pools, pools.Of(p.pool))
}

// separated leaves out of what a pod of a pool runs on the NUMA nodes of bandwidth-sensitive pods, if the pod is memory-intensive. New memory comes from where a thread
// runs, so memory needs no rule of its own, and no page moves. ok is false where the pod has to stay: nothing else would be left; or, as online pods get what
// they ask for, less than the pool's intensive pods request.
func (ps *Pools) separated(p *pod, cpus topology.CPUSet) (part topology.CPUSet, ok bool) {
	sensitive := ps.capacity.alloc.Sensitive()
	if !p.loads() || sensitive == 0 || ps.capacity.kubeletRules() {
		return cpus, true
	}
	part = cpus
	for z := range int(ps.capacity.alloc.Shape().NUMANodes) {
		if sensitive&(1<<z) != 0 {
			part = part.Minus(ps.capacity.alloc.NUMANode(z))
		}
	}
	if part.IsEmpty() || p.pool != spec.PoolReclaimed && int64(part.Len())*1000 < ps.uses[p.pool].intensive {
		return cpus, part == cpus
	}
	return part, true
}

// yield makes a reclaimed pod yield. Where it shares CPUs with others it is idle; on CPUs of its pool it has a weight by what it asked for, because
// among idle pods one that asked for eight CPUs gets no more than one that asked for one.
func (ps *Pools) yield(p *pod, out *Placement) {
	out.Idle = ps.suppress || p.Reclaimed.MilliCPU == 0 || ps.capacity.alloc.Pools().Reclaimed.IsEmpty()
	if !out.Idle {
		out.Weight = int(min(max(p.Reclaimed.MilliCPU/milliPerWeight, minWeight), maxWeight))
	}
}

// A cpu.weight is a number from 1 to 10000; a hundredth of a CPU makes 1 of it.
const minWeight, maxWeight, milliPerWeight = 1, 10_000, 10
