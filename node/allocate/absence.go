package allocate

import "hilbert.dev/hilbert/topology"

// Shareable are the CPUs that no pod has for itself: the reserved ones, and all but those that dedicated pods hold and the rest of the NUMA nodes that one of them
// has alone. It may be empty; Placement says where pods that share run then.
func (m *Manager) Shareable() topology.CPUSet {
	out := m.capacity.machine.AllCPUs().Minus(m.capacity.alloc.Held())
	for numa := range m.capacity.machine.NUMA {
		if alone := m.capacity.alloc.Alone(); numa < topology.MaxNUMANodes && alone&(1<<numa) != 0 {
			out = out.Minus(m.capacity.alloc.NUMANode(numa))
		}
	}
	return out.Union(m.capacity.alloc.Reserved())
}

// WithoutLoan calls look with the Manager as it would be if nothing were lent and no pool steered: each pool has what its pods request. Everything is as
// before afterwards.
func (m *Manager) WithoutLoan(look func()) {
	pools, wanted, demands := m.capacity.alloc.Pools(), m.Pools.wanted, m.Pools.demands
	m.Pools.wanted, m.Pools.demands = [topology.MaxNUMANodes]int{}, nil
	m.Pools.reconcile()
	look()
	m.Pools.wanted, m.Pools.demands = wanted, demands
	m.Pools.reconcile()
	m.capacity.alloc.AdoptPools(pools)
}
