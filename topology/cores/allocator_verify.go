package cores

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// Verify checks the invariants that the docs promise, from the holdings up. An error is a bug of this package.
func (a *Allocator) Verify() error {
	return errors.Join(a.verifyHoldings(), a.verifyPools())
}

// verifyHoldings: each is sound, no two have a CPU in common, no other pod is in a NUMA node that a pod has alone, and what is free is what the
// holdings leave.
func (a *Allocator) verifyHoldings() error {
	var held topology.CPUSet
	var alone uint8
	var bound [topology.MaxNUMANodes]int
	free := topology.NewNUMAFree(&a.shape)
	for id, h := range a.holdings {
		if err := a.sound(h); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		if twice := held.Intersection(h.CPUs); !twice.IsEmpty() {
			return fmt.Errorf("%s: CPUs %v are held twice", id, twice)
		}
		held = held.Union(h.CPUs)
		free.Commit(&h.Grant)
		if h.Request.Binding == topology.Exclusive {
			alone |= h.Grant.NUMANodes()
		}
		for z := range bound {
			if h.Request.Binding == topology.BoundShared {
				bound[z] += int(h.Grant.CPUs[z])
			}
		}
	}
	if held != a.held || free != a.free || alone != a.alone || bound != a.bound {
		return fmt.Errorf("held %v, alone %b, free %v, bound %v; the holdings say %v, %b, %v, %v", a.held, a.alone, a.free, a.bound, held, alone, free, bound)
	}
	for set := alone; set != 0; set &= set - 1 {
		if z := bits.TrailingZeros8(set); free[z].Claims != 1 {
			return fmt.Errorf("NUMA node %d is held alone, by %d pods", z, free[z].Claims)
		}
	}
	return nil
}

// verifyPools: they are made of whole cores, partition what is for them, and have the sizes that the division comes to.
func (a *Allocator) verifyPools() error {
	want := a.all.Minus(a.reserved).Minus(a.held).Minus(a.inNUMANodes(a.alone))
	parts := map[string]topology.CPUSet{reclaimed: a.pools.Reclaimed}
	for name, cpus := range a.pools.Shared {
		parts[shared+name] = cpus
	}
	var union topology.CPUSet
	for key, cpus := range parts {
		if twice := union.Intersection(cpus); !twice.IsEmpty() {
			return fmt.Errorf("pool %s: CPUs %v are in another pool too", key, twice)
		}
		union = union.Union(cpus)
		for z := range a.numaNodes {
			for _, c := range a.numaNodes[z].cores {
				if part := c.cpus.Intersection(cpus); !part.IsEmpty() && part != c.cpus.Intersection(want) {
					return fmt.Errorf("pool %s: has only %v of core %v", key, part, c.cpus)
				}
			}
		}
	}
	if union != want || a.pools.System != a.reserved.Minus(a.held) {
		return fmt.Errorf("pools have %v and %v; for them are %v and %v", union, a.pools.System, want, a.reserved.Minus(a.held))
	}
	for key, cpus := range parts {
		runs := a.pools.Runs(cpus)
		if runs.IsEmpty() || !runs.Intersection(a.held).IsEmpty() && a.held != a.all {
			return fmt.Errorf("pool %s: runs on %q, while %v are held", key, runs, a.held)
		}
	}
	return a.verifySizes()
}

func (a *Allocator) verifySizes() error {
	var count [topology.MaxNUMANodes]int
	has := make(map[string]int)
	var taken, ofShare [topology.MaxNUMANodes]int
	for _, u := range a.units() { // whose owners are what the pools say
		count[u.numa]++
		if u.owner == reclaimed {
			taken[u.numa]++
		}
		if u.owner == share {
			ofShare[u.numa]++
		}
		has[u.owner]++
	}
	s := a.division.sizes(count, a.bound, a.threads)
	if taken != s.reclaimed {
		return fmt.Errorf("reclaimed has %v cores by NUMA node, not %v", taken, s.reclaimed)
	}
	for _, name := range s.names {
		if has[shared+name] != s.shared[name] {
			return fmt.Errorf("pool %s has %d cores, not %d", name, has[shared+name], s.shared[name])
		}
	}
	for z, n := range s.keeps {
		if ofShare[z] < n {
			return fmt.Errorf("pool %s has %d cores in NUMA node %d, not %d", SharePool, ofShare[z], z, n)
		}
	}
	// SharePool has what is left; so it has no core only if others have none, or if no pod asks for it.
	asks := slices.ContainsFunc(a.division.Shared, func(d PoolDemand) bool { return d.Name == SharePool })
	if asks && has[share] < s.shared[SharePool] {
		return fmt.Errorf("pool %s has %d cores, not %d", SharePool, has[share], s.shared[SharePool])
	}
	return nil
}
