package sim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

const tiedWorkload = "nodes=12,pods=300,classes=16,minutes=5,constraints=1"

// TestConstraints runs a small busy cluster with constraints between pods and with every fault: it judges each decision of four schedulers when it is
// committed, three in four of them on an old state. At rest everything that fits is bound.
func TestConstraints(t *testing.T) {
	t.Parallel()
	seeds := seedsToRun(t)
	if os.Getenv("HILBERT_SIM_SEEDS") == "" {
		seeds = 20
	}
	seen := make(map[string]int)
	conflicts, refused := 0.0, 0
	for seed := range seeds {
		text := tiedWorkload
		if seed%4 == 3 { // two rounds of the kinds, in two namespaces
			text = strings.Replace(text, "pods=300,classes=16", "pods=500,classes=32", 1)
		}
		w := invent(t, text, seed)
		o := options(seed)
		o.Schedulers, o.CheckEvery, o.Faults = 4, stepsBetweenChecks(), DefaultFaults(w)
		o.Preempt = seed%4 == 2
		r, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatalf("%v\nreproduce it (unless pods preempt): hilbert sim --synthetic %s --faults --check --schedulers 4 --seed %d", err, text, seed)
		}
		for reason, n := range r.Reasons {
			seen[reason] += n
		}
		conflicts += r.ConflictPercent
		refused += *r.RefusedThoughFit
	}
	for _, name := range []string{"PodTopologySpread", "InterPodAffinity"} {
		if seen[name] == 0 {
			t.Errorf("in all seeds no pod waited for good because of %s", name)
		}
	}
	if conflicts == 0 {
		t.Error("there was never a conflict")
	}
	if refused > 0 {
		t.Errorf("%d pods were said to fit nowhere though they did", refused)
	}
}

// tellSpread tells the scheduler that every spread constraint is another.
func tellSpread(change func(*facts.SpreadConstraint)) func(facts.Event) facts.Event {
	return tellRequirements(func(r *facts.Requirements) {
		r.Spread = slices.Clone(r.Spread)
		for i := range r.Spread {
			change(&r.Spread[i])
		}
	})
}

// TestChecksFindConstraintMistakes hides constraints between pods from the scheduler. The right check must notice each.
func TestChecksFindConstraintMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		told func(facts.Event) facts.Event
		want string
	}{
		{"spread", tellRequirements(func(r *facts.Requirements) { r.Spread = nil }), "spread: "},
		{"minDomains", tellSpread(func(c *facts.SpreadConstraint) { c.MinDomains = 1 }), "0 elsewhere, skew at most 5"},
		{"affinity", tellRequirements(func(r *facts.Requirements) { r.Affinity = nil }), "affinity: no such pod in the node's"},
		{"anti-affinity", tellRequirements(func(r *facts.Requirements) { r.AntiAffinity = nil }), "anti-affinity"},
		{"anti-affinity of those that run", tellPod(func(f *facts.Pod) bool {
			if r := *f.Requirements; f.Node != "" {
				r.AntiAffinity = nil
				f.Requirements = &r
			}
			return true
		}), "anti-affinity of a pod that is there"},
		{"the greater skew", tellSpread(func(c *facts.SpreadConstraint) { c.MaxSkew = 1 }), "waits though node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var last error
			for seed := range uint64(20) {
				w := invent(t, tiedWorkload, seed)
				o := options(seed)
				o.CheckEvery, o.Faults = 1, DefaultFaults(w)
				o.Faults.Relists, o.Faults.Restarts = 0, 0
				s, err := newSimulation(w, o)
				if err != nil {
					t.Fatal(err)
				}
				s.process.seams.told = c.told
				if err := s.process.start(); err != nil { // the nodes were listed before
					t.Fatal(err)
				}
				_, last = s.run(t.Context())
				if broken, ok := errors.AsType[*Violation](last); ok && strings.Contains(broken.What, c.want) {
					return
				}
			}
			t.Errorf("never %q; at last %s", c.want, fmt.Sprint(last))
		})
	}
}

// TestAntiAffinityOnOneNode: two pods on one node that exclude each other are a violation, unless another scheduler bound one of them.
func TestAntiAffinityOnOneNode(t *testing.T) {
	t.Parallel()
	for _, foreign := range []bool{false, true} {
		w := tiny([2]int64{0, -1}, [2]int64{0, -1})
		w.Nodes[0].Labels = map[string]string{facts.HostnameKey: "n"}
		w.Tasks[0].Requirements.AntiAffinity = []facts.AffinityTerm{{TopologyKey: facts.HostnameKey, Pods: facts.PodSelector{Namespaces: []string{namespace}}}}
		s, err := newSimulation(w, Options{Config: options(1).Config, CheckEvery: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int32(2) {
			s.api.bind(s.api.create(i, 0, true, 0), 0, topology.Grant{}, 0)
			s.api.pods[i].foreign = foreign && i == 1
		}
		s.audit.nodes()
		if (s.violations.first == nil) != foreign {
			t.Errorf("foreign %v: %v", foreign, s.violations.first)
		}
	}
}
