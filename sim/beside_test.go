package sim

import (
	"testing"

	"hilbert.dev/hilbert/schedule"
)

// TestFaultsBeside runs small busy clusters in which everything goes wrong with three schedulers that place single pods beside the process's own. Events, faults and
// crashes come while they decide.
func TestFaultsBeside(t *testing.T) {
	t.Parallel()
	var all schedule.WorkerCounts
	for _, c := range []struct {
		workload string
		preempt  bool
	}{
		{faultyWorkload, false},
		{faultyWorkload, true},
		{tenantedWorkload, true},
		{"nodes=12,pods=300,classes=8,minutes=5,load=150,gangs=60,constraints=1", false},
		{"nodes=12,pods=200,classes=8,minutes=5,load=150,queues=6,numa=4,dedicated=30,devices=40", true},
	} {
		t.Run(c.workload, func(t *testing.T) {
			var sum schedule.WorkerCounts
			for seed := range max(seedsToRun(t)/3, 10) { // in fewer, not everything that is asked for below happens
				w := invent(t, c.workload, seed)
				o := options(seed)
				o.Config.Schedulers, o.CheckEvery, o.Faults, o.Preempt = 3, stepsBetweenChecks(), DefaultFaults(w), c.preempt
				r, err := Run(t.Context(), w, o)
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					continue
				}
				sum.Add(*r.Beside)
			}
			if sum.Committed == 0 || sum.Elsewhere == 0 || sum.Rejected == 0 {
				t.Errorf("something never happened: %+v", sum)
			}
			all.Add(sum)
		})
	}
	if all.Gone == 0 || all.Parked == 0 {
		t.Errorf("no unit went, or was parked, while it was decided: %+v", all)
	}
}
