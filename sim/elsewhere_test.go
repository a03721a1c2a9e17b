package sim

import (
	"fmt"
	"os"
	"testing"

	"hilbert.dev/hilbert/schedule"
)

// elsewhereWorkloads are what schedulers elsewhere are tried on: pods alone, tenants and gangs, constraints, NUMA nodes and devices.
var elsewhereWorkloads = []struct {
	workload string
	preempt  bool
}{
	{faultyWorkload, false},
	{tenantedWorkload, true},
	{"nodes=12,pods=300,classes=8,minutes=5,load=150,gangs=60,constraints=1", false},
	{"nodes=12,pods=200,classes=8,minutes=5,load=150,queues=6,numa=4,dedicated=30,devices=40", true},
}

func elsewhereOptions(seed uint64) Options {
	o := options(seed)
	o.Elsewhere = 3
	return o
}

// TestFaultsElsewhere runs small busy clusters in which everything goes wrong while three schedulers in processes of their own decide: messages are lost, late, doubled and overtake one another,
// schedulers freeze, die and are out of reach, leaders change and are not told, clocks differ, and Answers of old epochs come to new leaders.
func TestFaultsElsewhere(t *testing.T) {
	t.Parallel()
	var all schedule.WorkerCounts
	met := map[string]int{}
	// In fewer, not everything that is asked for below happens. More are simulated by make sim-test and make chaos.
	seeds, kinds := uint64(8), uint64(len(elsewhereWorkloads))
	if os.Getenv("HILBERT_SIM_SEEDS") != "" {
		seeds = max(seedsToRun(t), seeds)
	}
	for i, c := range elsewhereWorkloads {
		t.Run(c.workload, func(t *testing.T) {
			var of schedule.OutsideCounts
			for seed := uint64(i); seed < seeds; seed += kinds {
				w := invent(t, c.workload, seed)
				o := elsewhereOptions(seed)
				o.CheckEvery, o.Faults, o.Preempt = stepsBetweenChecks(), DefaultFaults(w), c.preempt
				r, err := Run(t.Context(), w, o)
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					continue
				}
				all.Add(*r.Beside)
				of.Joined, of.Left, of.Shed, of.Refused = of.Joined+r.Elsewhere.Joined, of.Left+r.Elsewhere.Left, of.Shed+r.Elsewhere.Shed, of.Refused+r.Elsewhere.Refused
				for name, n := range r.Faults {
					met[name] += n
				}
			}
			if of.Left == 0 || of.Shed == 0 || of.Refused == 0 {
				t.Errorf("something never happened: %+v", of)
			}
		})
	}
	if all.Committed == 0 || all.Elsewhere == 0 || all.Gone == 0 {
		t.Errorf("something never happened: %+v", all)
	}
	for _, name := range []string{
		"message lost", "message late", "message twice", "answer of another epoch", "leader that does not know it is deposed", "scheduler elsewhere found messages out of order",
		"strike: fault of a scheduler elsewhere",
	} {
		if met[name] == 0 {
			t.Errorf("never happened: %s", name)
		}
	}
	t.Logf("%+v %v", all, met)
}

// TestElsewhereSameRun: the same seed is the same run, with faults and without.
func TestElsewhereSameRun(t *testing.T) {
	t.Parallel()
	for _, c := range elsewhereWorkloads {
		for _, faults := range []bool{false, true} {
			run := func() string {
				w := invent(t, c.workload, 7)
				o := elsewhereOptions(7)
				o.CheckEvery, o.Preempt = stepsBetweenChecks(), c.preempt
				if faults {
					o.Faults = DefaultFaults(w)
				}
				r, err := Run(t.Context(), w, o)
				if err != nil {
					t.Fatalf("%s, faults %v: %v", c.workload, faults, err)
				}
				if r.Beside.Committed == 0 {
					t.Errorf("%s, faults %v: nothing was decided elsewhere: %+v", c.workload, faults, r.Beside)
				}
				return fmt.Sprintf("%d steps, %+v, %+v, %v, %s", r.Steps, r.Beside, r.Elsewhere, r.Faults, r.Digest)
			}
			if first, second := run(), run(); first != second {
				t.Errorf("%s, faults %v:\n%s, then\n%s", c.workload, faults, first, second)
			}
		}
	}
}
