package allocate

import "hilbert.dev/hilbert/topology"

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
