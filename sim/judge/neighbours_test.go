package judge

import (
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/trace"
)

// namespace of the pods of these tests.
const namespace = "default"

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
	exclusive := &facts.Requirements{AntiAffinity: near(trace.LabelZone, "k")}
	company := &facts.Requirements{Affinity: near(trace.LabelZone, "k")}
	for _, c := range []struct {
		name  string
		there string // node/kind of those that are there; ! for one that is being deleted, @ for one of another namespace, - for one with anti-affinity
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
		{"the first of another kind", "", &facts.Requirements{Affinity: near(trace.LabelZone, "j")}, "b1", "affinity: no such pod"},
		{"in company", "a1/k", company, "a2", ""},
		{"company that leaves", "a1/k!", company, "a2", ""},
		{"alone", "a1/k", company, "b1", "affinity: no such pod"},
		{"no domain", "", company, "x1", "affinity: the node has no"},
		{"all terms select the same pod", "a1/k a1/j", &facts.Requirements{Affinity: append(near(trace.LabelZone, "j"), near(trace.LabelZone, "k")...)}, "a1", "affinity: no such pod"},
		{"anti-affinity", "a1/k", exclusive, "a2", "anti-affinity: "},
		{"anti-affinity to a pod that leaves", "a1/k!", exclusive, "a2", "anti-affinity: "},
		{"anti-affinity elsewhere", "a1/k", exclusive, "b1", ""},
		{"anti-affinity without a domain", "a1/k x1/k", exclusive, "x1", ""},
		{"anti-affinity of a pod that is there", "a1/j-", &facts.Requirements{}, "a2", "anti-affinity of"},
		{"anti-affinity of a pod elsewhere", "a1/j-", &facts.Requirements{}, "b1", ""},
		{"anti-affinity of a pod of another namespace", "a1/j-@", &facts.Requirements{}, "a2", "anti-affinity of"},
	} {
		var pods []*Resident
		for text := range strings.FieldsSeq(c.there) {
			r := &Resident{
				Namespace: namespace, Labels: []facts.Label{{Key: "kind", Value: text[3:4]}}, Requirements: &facts.Requirements{},
				Deleting: strings.Contains(text, "!"), Node: nodes[text[:2]],
			}
			if strings.Contains(text, "@") {
				r.Namespace = "other"
			}
			if strings.Contains(text, "-") {
				r.Requirements = exclusive
			}
			pods = append(pods, r)
		}
		newcomer := &Resident{Namespace: namespace, Labels: []facts.Label{{Key: "kind", Value: "k"}}, Requirements: c.r}
		got := (&Population{Nodes: all, Pods: pods}).Refusal(newcomer, nodes[c.node])
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
