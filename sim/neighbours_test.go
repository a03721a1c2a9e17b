package sim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

const tiedWorkload = "nodes=12,pods=300,classes=16,minutes=5,constraints=1"

// TestConstraints runs a small busy cluster with constraints between pods and with every fault: each decision of four schedulers, three
// times in four on an old state, is judged when it is committed, and at rest everything that fits is bound.
func TestConstraints(t *testing.T) {
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
		o.Schedulers, o.CheckEvery, o.Faults = 4, 1, DefaultFaults(w)
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

// TestTiesThatAreNotSeen hides constraints between pods from the scheduler, and wants each missed by the right check.
func TestTiesThatAreNotSeen(t *testing.T) {
	for _, c := range []struct {
		name string
		told func(facts.Event) facts.Event
		want string
	}{
		{"spread", tellRequirements(func(r *facts.Requirements) { r.Spread = nil }), "spread: "},
		{"minDomains", tellSpread(func(c *facts.SpreadConstraint) { c.MinDomains = 1 }), "0 elsewhere, skew at most 5"},
		{"affinity", tellRequirements(func(r *facts.Requirements) { r.Affinity = nil }), "affinity: nobody in the node's"},
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
				s.seams.told = c.told
				if err := s.start(); err != nil { // the nodes were listed before
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

// TestApart: two pods on one machine that must not be are noticed whatever the scheduler thinks, unless another one bound them.
func TestApart(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		w := tiny([2]int64{0, -1}, [2]int64{0, -1})
		w.Nodes[0].Labels = map[string]string{facts.HostnameKey: "n"}
		w.Tasks[0].Requirements.AntiAffinity = []facts.AffinityTerm{{TopologyKey: facts.HostnameKey, Pods: kindOf("")}}
		s, err := newSimulation(w, Options{Config: options(1).Config, CheckEvery: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int32(2) {
			s.api.bind(s.api.create(i, 0, true, 0), 0, topology.Grant{}, 0)
			s.api.pods[i].foreign = foreign && i == 1
		}
		s.checkModel()
		if (s.err == nil) != foreign {
			t.Errorf("foreign %v: %v", foreign, s.err)
		}
	}
}

// kindOf selects the pods of the default namespace that are of a kind; empty: all.
func kindOf(kind string) facts.PodSelector {
	p := facts.PodSelector{Namespaces: []string{namespace}}
	if kind != "" {
		p.Labels.Expressions = []facts.Requirement{{Key: "kind", Operator: facts.In, Values: []string{kind}}}
	}
	return p
}

// TestNeighbours: the naive judge by itself. Nodes are a1, a2 in zone a, b1 in zone b, and x1, which has no zone.
func TestNeighbours(t *testing.T) {
	nodes := make(map[string]*facts.Node)
	var all []*facts.Node
	for _, name := range []string{"a1", "a2", "b1", "x1"} {
		n := &facts.Node{Name: name, Labels: map[string]string{facts.HostnameKey: name}}
		if zone := name[:1]; zone != "x" {
			n.Labels[trace.LabelZone] = zone
		}
		nodes[name], all = n, append(all, n)
	}
	nodes["b1"].Taints = []facts.Taint{{Key: "t", Effect: facts.NoSchedule}}
	zone := facts.SpreadConstraint{TopologyKey: trace.LabelZone, MaxSkew: 1, Hard: true, MinDomains: 1, Pods: kindOf("k"), HonorAffinity: true}
	with := func(change func(*facts.SpreadConstraint)) *facts.Requirements {
		c := zone
		change(&c)
		return &facts.Requirements{Spread: []facts.SpreadConstraint{c}}
	}
	near := func(key, kind string) []facts.AffinityTerm {
		return []facts.AffinityTerm{{TopologyKey: key, Pods: kindOf(kind)}}
	}
	same := func(*facts.SpreadConstraint) {}
	inA := with(same)
	inA.NodeSelector = []facts.Label{{Key: trace.LabelZone, Value: "a"}}
	shy := &facts.Requirements{AntiAffinity: near(trace.LabelZone, "k")}
	company := &facts.Requirements{Affinity: near(trace.LabelZone, "k")}
	for _, c := range []struct {
		name  string
		there string // node/kind of those that are there; ! for one that is being deleted, @ for one of another namespace, - for a shy one
		r     *facts.Requirements
		node  string
		want  string // the beginning of the reason
	}{
		{"even", "a1/k b1/k", with(same), "a2", ""},
		{"skewed", "a1/k", with(same), "a2", "spread: 2 in"},
		{"the other zone", "a1/k", with(same), "b1", ""},
		{"a wider skew", "a1/k", with(func(c *facts.SpreadConstraint) { c.MaxSkew = 2 }), "a2", ""},
		{"soft", "a1/k", with(func(c *facts.SpreadConstraint) { c.Hard = false }), "a2", ""},
		{"no zone", "", with(same), "x1", "spread: the node has no"},
		{"those without a zone are not counted", "x1/k", with(same), "a1", ""},
		{"other kinds are not counted", "a1/j", with(same), "a2", ""},
		{"other namespaces are not counted", "a1/k@", with(same), "a2", ""},
		{"those that leave are not counted", "a1/k!", with(same), "a2", ""},
		{"too few domains", "a1/k b1/k", with(func(c *facts.SpreadConstraint) { c.MinDomains = 3 }), "a2", "spread: 2 in"},
		{"a selector of everything counts nothing", "a1/k", with(func(c *facts.SpreadConstraint) { c.Pods = kindOf("") }), "a2", ""},
		{"zones that the pod may not go to", "a1/k", inA, "a2", ""},
		{"tainted zones", "a1/k", with(func(c *facts.SpreadConstraint) { c.HonorTaints = true }), "a2", ""},
		{"the first of its kind", "a1/j", company, "b1", ""},
		{"the first of another kind", "", &facts.Requirements{Affinity: near(trace.LabelZone, "j")}, "b1", "affinity: nobody"},
		{"in company", "a1/k", company, "a2", ""},
		{"company that leaves", "a1/k!", company, "a2", ""},
		{"alone", "a1/k", company, "b1", "affinity: nobody"},
		{"no domain", "", company, "x1", "affinity: the node has no"},
		{"all terms select the same pod", "a1/k a1/j", &facts.Requirements{Affinity: append(near(trace.LabelZone, "j"), near(trace.LabelZone, "k")...)}, "a1", "affinity: nobody"},
		{"shy", "a1/k", shy, "a2", "anti-affinity: "},
		{"shy of one that leaves", "a1/k!", shy, "a2", "anti-affinity: "},
		{"shy, elsewhere", "a1/k", shy, "b1", ""},
		{"shy, no domain", "a1/k x1/k", shy, "x1", ""},
		{"one there is shy", "a1/j-", &facts.Requirements{}, "a2", "anti-affinity of"},
		{"one elsewhere is shy", "a1/j-", &facts.Requirements{}, "b1", ""},
		{"one of another namespace is shy", "a1/j-@", &facts.Requirements{}, "a2", "anti-affinity of"},
	} {
		var pods []*resident
		for text := range strings.FieldsSeq(c.there) {
			r := &resident{
				namespace: namespace, labels: []facts.Label{{Key: "kind", Value: text[3:4]}}, requirements: &facts.Requirements{},
				deleting: strings.Contains(text, "!"), node: nodes[text[:2]],
			}
			if strings.Contains(text, "@") {
				r.namespace = "other"
			}
			if strings.Contains(text, "-") {
				r.requirements = shy
			}
			pods = append(pods, r)
		}
		newcomer := &resident{namespace: namespace, labels: []facts.Label{{Key: "kind", Value: "k"}}, requirements: c.r}
		got := (&population{all, pods}).bars(newcomer, nodes[c.node])
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
