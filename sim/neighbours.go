package sim

import (
	"fmt"
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// This file judges constraints between pods naively: it counts all pods anew for every question, with no tallies or censuses, and no code
// of schedule/place or of cluster's matching.
//
// What is judged are decisions, at their commit and on what the scheduler had been told by then. What the world does afterwards breaks no
// constraint: pods leave, nodes go and come back, others bind where they like.

// resident is a pod as constraints between pods see it.
type resident struct {
	namespace    string
	labels       []facts.Label
	requirements *facts.Requirements
	deleting     bool
	node         *facts.Node // nil: it is looking for one
}

// population is every node, and every pod on one of them.
type population struct {
	nodes []*facts.Node
	pods  []*resident
}

// bars says which constraint between pods keeps a newcomer off the node; empty when none does.
func (all *population) bars(r *resident, n *facts.Node) string {
	for i := range r.requirements.Spread {
		if why := all.skewed(r, &r.requirements.Spread[i], n); why != "" {
			return why
		}
	}
	if why := all.strange(r, n); why != "" {
		return why
	}
	for _, other := range all.pods {
		if why := parts(r, other, n, other.node); why != "" {
			return "anti-affinity: " + why
		}
		if why := parts(other, r, other.node, n); why != "" {
			return "anti-affinity of a pod that is there: " + why
		}
	}
	return ""
}

// skewed holds a hard spread constraint: with the newcomer, the node's domain may have at most MaxSkew more of the selected pods than the
// eligible domain with the fewest, which counts as empty where there are fewer than MinDomains of them.
func (all *population) skewed(r *resident, c *facts.SpreadConstraint, n *facts.Node) string {
	if !c.Hard {
		return ""
	}
	home, ok := n.Labels[c.TopologyKey]
	if !ok {
		return "spread: the node has no " + c.TopologyKey
	}
	counts := make(map[string]int)
	for _, m := range all.nodes {
		if eligible(m, r.requirements, c) {
			counts[m.Labels[c.TopologyKey]] += 0
		}
	}
	for _, other := range all.pods {
		// A selector that selects everything counts nothing: so upstream.
		if len(c.Pods.Labels.Expressions) > 0 && !other.deleting && eligible(other.node, r.requirements, c) && selectsPod(&c.Pods, other) {
			counts[other.node.Labels[c.TopologyKey]]++
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
	if selectsPod(&c.Pods, r) {
		there++
	}
	if there-least > int(c.MaxSkew) {
		return fmt.Sprintf("spread: %d in %s %s, %d elsewhere, skew at most %d", there, c.TopologyKey, home, least, c.MaxSkew)
	}
	return ""
}

// eligible says whether a spread constraint looks at a node: it has the key of every hard constraint, and the pod could be there as far as
// the constraint cares.
func eligible(n *facts.Node, r *facts.Requirements, c *facts.SpreadConstraint) bool {
	for i := range r.Spread {
		if _, ok := n.Labels[r.Spread[i].TopologyKey]; !ok && r.Spread[i].Hard {
			return false
		}
	}
	return (!c.HonorAffinity || unwanted(n, r) == "") && (!c.HonorTaints || repels(n, r) == "")
}

// strange holds required affinity: for each term, a pod that all terms select is in the node's domain. The first of a group that asks for
// its own kind, anywhere, needs no company.
func (all *population) strange(r *resident, n *facts.Node) string {
	terms := r.requirements.Affinity
	matches := func(other *resident) bool {
		return !slices.ContainsFunc(terms, func(t facts.AffinityTerm) bool { return !selectsPod(&t.Pods, other) })
	}
	anywhere, missing := false, ""
	for i := range terms {
		key := terms[i].TopologyKey
		home, ok := n.Labels[key]
		if !ok {
			return "affinity: the node has no " + key
		}
		company := false
		for _, other := range all.pods {
			if place, ok := other.node.Labels[key]; ok && matches(other) {
				anywhere = true
				company = company || place == home
			}
		}
		if !company {
			missing = key
		}
	}
	if missing != "" && (anywhere || !matches(r)) {
		return "affinity: nobody in the node's " + missing
	}
	return ""
}

// parts says which term of a pod's required anti-affinity keeps it away from another, when they are on these nodes.
func parts(r, other *resident, n, m *facts.Node) string {
	for i := range r.requirements.AntiAffinity {
		t := &r.requirements.AntiAffinity[i]
		a, known := n.Labels[t.TopologyKey]
		if b, there := m.Labels[t.TopologyKey]; known && there && a == b && selectsPod(&t.Pods, other) {
			return t.TopologyKey
		}
	}
	return ""
}

// selectsPod reads a pod selector. Simulated namespaces have no labels.
func selectsPod(p *facts.PodSelector, r *resident) bool {
	everywhere := p.NamespaceSelector != nil && !p.NamespaceSelector.Nothing && len(p.NamespaceSelector.Expressions) == 0
	if p.Labels.Nothing || !everywhere && !slices.Contains(p.Namespaces, r.namespace) {
		return false
	}
	for _, e := range p.Labels.Expressions {
		at := slices.IndexFunc(r.labels, func(l facts.Label) bool { return l.Key == e.Key })
		value := ""
		if at >= 0 {
			value = r.labels[at].Value
		}
		if !expressionHolds(e, value, at >= 0) {
			return false
		}
	}
	return true
}

// bars asks for the mirror: what the scheduler ought to know.
func (c *checker) bars(m *mirrored, n *facts.Node, off ...facts.UID) string {
	if !c.s.tied {
		return ""
	}
	var all population
	for _, n := range c.nodes {
		all.nodes = append(all.nodes, n)
	}
	for _, other := range c.pods {
		if at := c.nodes[other.node]; at != nil && other != m && !slices.Contains(off, other.uid) {
			all.pods = append(all.pods, other.resident(at))
		}
	}
	return all.bars(m.resident(nil), n)
}

func (m *mirrored) resident(n *facts.Node) *resident {
	return &resident{m.namespace, m.labels, m.requirements, m.deleting, n}
}

func (a *model) resident(p *pod) *resident {
	id := a.identity(p)
	r := &resident{id.Namespace, id.Labels, a.requirements(p), p.deleting, nil}
	if p.node != nowhere {
		r.node = a.nodes[p.node].object
	}
	return r
}

// population is what the API server has, without some; nothing where no constraint asks.
func (s *simulation) population(off func(*pod) bool) *population {
	var all population
	if !s.tied {
		return &all
	}
	a := s.api
	for i := range a.nodes {
		n := &a.nodes[i]
		if !n.present {
			continue
		}
		all.nodes = append(all.nodes, n.object)
		for _, at := range n.pods {
			if p := &a.pods[at]; off == nil || !off(p) {
				all.pods = append(all.pods, a.resident(p))
			}
		}
	}
	return &all
}

// checkApart looks for pods on one node that required anti-affinity parts, among those that our scheduler bound. It holds at every step,
// for two pods on one node are in one domain of whatever key it has.
func (s *simulation) checkApart() {
	if s.check == nil || !s.tied {
		return
	}
	for i := range s.api.nodes {
		n := &s.api.nodes[i]
		for _, at := range n.pods {
			p := &s.api.pods[at]
			if p.foreign || len(s.api.requirements(p).AntiAffinity) == 0 {
				continue
			}
			for _, other := range n.pods {
				q := &s.api.pods[other]
				if q == p || q.foreign {
					continue
				}
				if key := parts(s.api.resident(p), s.api.resident(q), n.object, n.object); key != "" {
					s.violate("pods %s and %s are both on node %s: anti-affinity of the first over %s", p.uid, q.uid, n.object.Name, key)
				}
			}
		}
	}
}
