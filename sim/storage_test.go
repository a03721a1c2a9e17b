package sim

import (
	"fmt"
	"os"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
)

// claimsWorkloads are StatefulSets, and gangs in queues, with claims that wait for the first consumer.
var claimsWorkloads = []string{
	"nodes=12,pods=150,classes=8,minutes=5,claims=60",
	"nodes=12,pods=150,classes=8,minutes=5,queues=4,gangs=60,claims=60",
}

// usualClaimsSeeds is how many seeds run where HILBERT_SIM_SEEDS does not say: a few seconds' worth.
const usualClaimsSeeds = 3

// TestFaultsOfClaims lets drivers refuse nodes, be slow, be away, and make two volumes for one claim, while everything else goes wrong too and processes die.
func TestFaultsOfClaims(t *testing.T) {
	t.Parallel()
	for _, text := range claimsWorkloads {
		for _, schedulers := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s,schedulers=%d", text, schedulers), func(t *testing.T) {
				faultsOfClaims(t, text, schedulers)
			})
		}
	}
}

func faultsOfClaims(t *testing.T, text string, schedulers int) {
	t.Helper()
	seen := make(map[string]int)
	seeds := min(seedsToRun(t), usualClaimsSeeds)
	if os.Getenv("HILBERT_SIM_SEEDS") != "" {
		seeds = seedsToRun(t)
	}
	for seed := range seeds {
		w := invent(t, text, seed)
		o := options(seed)
		o.Schedulers, o.CheckEvery, o.Faults = schedulers, stepsBetweenChecks(), DefaultFaults(w)
		r, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatalf("%v\nreproduce it: hilbert sim --synthetic %s --faults --check --schedulers %d --seed %d", err, text, schedulers, seed)
		}
		for name, n := range r.Faults {
			seen[name] += n
		}
	}
	must := []string{"claim bound", "claim deleted", "node refused by a driver", "two volumes made for a claim", "volume done", "strike: restart"}
	if seeds >= 30 {
		must = append(must, "driver away", "second volume given back", "volume gone", "volume conflict", "volume refused", "volume unknown", "volume not sent")
	}
	for _, name := range must {
		if seen[name] == 0 {
			t.Errorf("in all seeds there was never: %s", name)
		}
	}
}

// TestPodsWithClaimsSayWhyTheyWait fills a cluster without faults; what is checked at rest is that each pod that waits has a reason.
func TestPodsWithClaimsSayWhyTheyWait(t *testing.T) {
	t.Parallel()
	for _, text := range claimsWorkloads {
		r, err := Run(t.Context(), invent(t, text+",load=300", 1), options(1))
		if err != nil {
			t.Fatal(err)
		}
		if r.Placed == 0 || r.Placed == r.Pods {
			t.Errorf("%s: %d of %d pods have a place; some should, and some should wait", text, r.Placed, r.Pods)
		}
	}
}

// TestChecksFindMistakesAboutClaims: a scheduler that is told wrong things of claims is found out.
func TestChecksFindMistakesAboutClaims(t *testing.T) {
	t.Parallel()
	claim := func(change func(*facts.Claim)) func(facts.Event) facts.Event {
		return func(e facts.Event) facts.Event {
			if told, ok := e.(facts.StorageUpserted); ok {
				if c, ok := told.Object.(*facts.Claim); ok {
					edited := *c
					change(&edited)
					return facts.StorageUpserted{Object: &edited}
				}
			}
			return e
		}
	}
	for name, told := range map[string]func(facts.Event) facts.Event{
		"claims seem bound that are not":   claim(func(c *facts.Claim) { c.Bound = true }),
		"pods seem to have no claims":      tellPod(func(f *facts.Pod) bool { f.Claims = nil; return true }),
		"volumes that are taken seem free": tellLocalVolumesFree,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				w := invent(t, claimsWorkloads[0], seed)
				o := options(seed)
				o.CheckEvery, o.Faults = 1, DefaultFaults(w)
				s, err := newSimulation(w, o)
				if err != nil {
					t.Fatal(err)
				}
				s.process.seams.told = told
				if _, err := s.run(t.Context()); err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("10 seeds did not notice")
		})
	}
}

// tellLocalVolumesFree tells the scheduler that each volume of a node is free.
func tellLocalVolumesFree(e facts.Event) facts.Event {
	if told, ok := e.(facts.StorageUpserted); ok {
		if v, ok := told.Object.(*facts.Volume); ok && v.StorageClass == "local" {
			edited := *v
			edited.Claim, edited.ClaimUID, edited.Available = facts.ClaimName{}, "", true
			return facts.StorageUpserted{Object: &edited}
		}
	}
	return e
}
