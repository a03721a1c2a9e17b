package sim

import (
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// grantsWorkload has queues, gangs, and pods that are given whole cores, NUMA nodes and parts of GPUs: more than they request.
const grantsWorkload = "nodes=12,pods=300,classes=16,minutes=5,load=150,numa=2,dedicated=30,devices=70,owners=30,queues=6,gangs=40"

// No limit is exceeded by what pods are given, with every fault and every invariant. A scheduler that charges requests instead of grants fails with
// seed 1.
func TestLimitsCountGrants(t *testing.T) {
	t.Parallel()
	few := max(seedsToRun(t)/10, 3)
	seeds := []uint64{15, 22} // they broke rules of the checker that held more than they say
	for seed := range few {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		for _, preempt := range []bool{false, true} {
			if seed >= few && !preempt {
				continue
			}
			w := invent(t, grantsWorkload, seed)
			o := options(seed)
			o.Schedulers, o.CheckEvery, o.Faults, o.Preempt = 4, stepsBetweenChecks(), DefaultFaults(w), preempt
			if _, err := Run(t.Context(), w, o); err != nil {
				t.Errorf("%v\nreproduce it: hilbert sim --synthetic %s --faults --check --preempt=%v --schedulers 4 --seed %d", err, grantsWorkload, preempt, seed)
			}
		}
	}
}

// A scheduler whose limits have room for a few CPUs more, as if it counted requests, is found out.
func TestChecksFindGrantsBeyondLimits(t *testing.T) {
	t.Parallel()
	found := false
	for seed := uint64(0); seed < 5 && !found; seed++ {
		w := invent(t, grantsWorkload, seed)
		o := options(seed)
		o.CheckEvery, o.Schedulers, o.Faults = 1, 4, DefaultFaults(w)
		s, err := newSimulation(w, o)
		if err != nil {
			t.Fatal(err)
		}
		s.process.seams.told = tellQueue(func(f *facts.Queue) {
			f.Max = append([]resource.Quantity(nil), f.Max...)
			for i := range f.Max {
				if f.Max[i].Name == resource.NameCPU {
					f.Max[i].Amount += 8000
				}
			}
		})
		_, err = s.run(t.Context())
		found = err != nil && strings.Contains(err.Error(), "has not enough cpu")
	}
	if !found {
		t.Error("in all seeds no limit was exceeded")
	}
}
