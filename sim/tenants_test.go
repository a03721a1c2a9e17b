package sim

import (
	"fmt"
	"testing"
)

const tenantedWorkload = "nodes=12,pods=300,classes=8,minutes=5,load=150,queues=6,gangs=60"

// TestTenants runs gangs in a tree of queues in a cluster that is too small for them, with every fault and every invariant.
func TestTenants(t *testing.T) {
	for _, c := range []struct {
		schedulers int
		preempt    bool
	}{{1, false}, {1, true}} {
		t.Run(fmt.Sprintf("schedulers=%d/preempt=%v", c.schedulers, c.preempt), func(t *testing.T) {
			seen := make(map[string]int)
			for seed := range seedsToRun(t) {
				w := invent(t, tenantedWorkload, seed)
				o := options(seed)
				o.Schedulers, o.CheckEvery, o.Faults, o.Preempt = c.schedulers, 1, DefaultFaults(w), c.preempt
				r, err := Run(t.Context(), w, o)
				if err != nil {
					t.Errorf("%v\nreproduce it: hilbert sim --synthetic %s --faults --check --schedulers %d --seed %d", err, tenantedWorkload, c.schedulers, seed)
					continue
				}
				for name, n := range r.Faults {
					seen[name] += n
				}
			}
			for _, name := range []string{"unit condition done", "unit condition gone", "unit condition unknown", "strike: queue edit", "strike: unit flap"} {
				if seen[name] == 0 {
					t.Errorf("in all seeds there was never: %s", name)
				}
			}
		})
	}
}
