package allocate

import (
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// memory binds pods to the memory of their NUMA nodes, and keeps all others out of NUMA nodes that one pod has alone.
type memory struct{ capacity *capacity }

// hints are all NUMA nodes, or those without bound pods if the pod wants NUMA nodes alone. A NUMA node without memory left may still be
// needed for its cores.
func (x memory) hints(p *pod) uint8 {
	return x.capacity.usable(func(_ int, _ topology.NUMACapacity, left topology.NUMARoom) bool {
		return p.Request.Binding != topology.Exclusive || left.Claims == 0
	})
}

// What is bound stands in the allocator, beside the cores of the same grant.
func (x memory) admit(*pod)   {}
func (x memory) release(*pod) {}
func (x memory) reconcile()   {}

func (x memory) place(p *pod, out *Placement) {
	if p.pool == spec.PoolReclaimed {
		out.MemoryMax = p.Reclaimed.MemoryMiB * topology.Mebibyte
	}
	if x.capacity.kubeletRules() {
		return
	}
	if h, ok := x.capacity.alloc.Holding(p.UID); ok && h.Request.Binding != topology.Unbound {
		if out.Mems = x.nodes(h.Grant.NUMANodes()); !out.Mems.IsEmpty() {
			return
		}
	}
	if out.Mems = x.nodes(^x.capacity.alloc.Alone()); out.Mems.IsEmpty() {
		out.Mems = x.nodes(^uint8(0)) // memory has to come from somewhere
	}
}

// nodes are the NUMA nodes of a set of NUMA nodes that have memory, by ID: the kernel takes no others. Where it says of none how much it has, all
// are taken.
func (x memory) nodes(numaNodes uint8) (set topology.CPUSet) {
	told := false
	for _, n := range x.capacity.machine.NUMA {
		told = told || n.Memory > 0
	}
	for i, n := range x.capacity.machine.NUMA {
		if (i >= topology.MaxNUMANodes || numaNodes&(1<<i) != 0) && (n.Memory > 0 || !told) {
			set.Add(n.ID)
		}
	}
	return set
}
