package judge

import (
	"fmt"
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Resident is a pod as constraints between pods see it.
type Resident struct {
	Namespace    string
	Labels       []facts.Label
	Requirements *facts.Requirements
	Deleting     bool
	Node         *facts.Node // nil: it is looking for one
}

// Population is every node, and every pod on one of them.
type Population struct {
	Nodes []*facts.Node
	Pods  []*Resident
}

// Refusal says which constraint between pods keeps a new pod off the node; empty if none does.
func (all *Population) Refusal(r *Resident, n *facts.Node) string {
	for i := range r.Requirements.Spread {
		if why := all.spreadRefusal(r, &r.Requirements.Spread[i], n); why != "" {
			return why
		}
	}
	if why := all.unmetAffinity(r, n); why != "" {
		return why
	}
	for _, other := range all.Pods {
		if why := AntiAffinity(r, other, n, other.Node); why != "" {
			return "anti-affinity: " + why
		}
		if why := AntiAffinity(other, r, other.Node, n); why != "" {
			return "anti-affinity of a pod that is there: " + why
		}
	}
	return ""
}

// spreadRefusal checks a hard spread constraint: with the new pod, the node's domain may have at most MaxSkew more of the selected pods than the
// eligible domain with the fewest, which counts as empty where there are fewer than MinDomains of them.
func (all *Population) spreadRefusal(r *Resident, c *facts.SpreadConstraint, n *facts.Node) string {
	if !c.Hard {
		return ""
	}
	home, ok := n.Labels[c.TopologyKey]
	if !ok {
		return "spread: the node has no " + c.TopologyKey
	}
	counts := make(map[string]int)
	for _, m := range all.Nodes {
		if eligible(m, r.Requirements, c) {
			counts[m.Labels[c.TopologyKey]] += 0
		}
	}
	for _, other := range all.Pods {
		// A selector that selects everything counts nothing, as in Kubernetes.
		if len(c.Pods.Labels.Expressions) > 0 && !other.Deleting && eligible(other.Node, r.Requirements, c) && selects(&c.Pods, other) {
			counts[other.Node.Labels[c.TopologyKey]]++
		}
	}
	least := math.MaxInt
	for _, n := range counts {
		least = min(least, n)
	}
	if len(counts) < int(c.MinDomains) {
		least = 0
	}
	there := counts[home]
	if selects(&c.Pods, r) {
		there++
	}
	if there-least > int(c.MaxSkew) {
		return fmt.Sprintf("spread: %d in %s %s, %d elsewhere, skew at most %d", there, c.TopologyKey, home, least, c.MaxSkew)
	}
	return ""
}

// eligible says whether a spread constraint counts a node: the node has the key of every hard constraint and, where the constraint honours
// affinity or taints, admits the pod.
func eligible(n *facts.Node, r *facts.Requirements, c *facts.SpreadConstraint) bool {
	for i := range r.Spread {
		if _, ok := n.Labels[r.Spread[i].TopologyKey]; !ok && r.Spread[i].Hard {
			return false
		}
	}
	return (!c.HonorAffinity || affinityRefusal(n, r) == "") && (!c.HonorTaints || taintRefusal(n, r) == "")
}

// unmetAffinity checks required affinity: for each term, the node's domain must contain a pod that all terms select. The first pod of a group
// whose terms select the group itself is exempt.
func (all *Population) unmetAffinity(r *Resident, n *facts.Node) string {
	terms := r.Requirements.Affinity
	matches := func(other *Resident) bool {
		return !slices.ContainsFunc(terms, func(t facts.AffinityTerm) bool { return !selects(&t.Pods, other) })
	}
	anywhere, missing := false, ""
	for i := range terms {
		key := terms[i].TopologyKey
		home, ok := n.Labels[key]
		if !ok {
			return "affinity: the node has no " + key
		}
		company := false
		for _, other := range all.Pods {
			if place, ok := other.Node.Labels[key]; ok && matches(other) {
				anywhere = true
				company = company || place == home
			}
		}
		if !company {
			missing = key
		}
	}
	if missing != "" && (anywhere || !matches(r)) {
		return "affinity: no such pod in the node's " + missing
	}
	return ""
}

// AntiAffinity names the topology key of the first required anti-affinity term of r that forbids r on node n while other is on node m; empty
// if none does.
func AntiAffinity(r, other *Resident, n, m *facts.Node) string {
	for i := range r.Requirements.AntiAffinity {
		t := &r.Requirements.AntiAffinity[i]
		a, known := n.Labels[t.TopologyKey]
		if b, there := m.Labels[t.TopologyKey]; known && there && a == b && selects(&t.Pods, other) {
			return t.TopologyKey
		}
	}
	return ""
}

// selects evaluates a pod selector. Simulated namespaces have no labels.
func selects(p *facts.PodSelector, r *Resident) bool {
	everywhere := p.NamespaceSelector != nil && !p.NamespaceSelector.Nothing && len(p.NamespaceSelector.Expressions) == 0
	if p.Labels.Nothing || !everywhere && !slices.Contains(p.Namespaces, r.Namespace) {
		return false
	}
	for _, e := range p.Labels.Expressions {
		if !labelsMatch(r.Labels, e) {
			return false
		}
	}
	return true
}
