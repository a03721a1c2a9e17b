package sim

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
)

// This file judges constraints between pods naively: it counts all pods anew for every question, with no tallies or censuses, and no code
// of schedule/place or of cluster's matching.
//
// What is judged are decisions, at their commit and on what the scheduler had been told by then. What the world does afterwards breaks no
// constraint: pods leave, nodes go and come back, others bind where they like.

// bars asks for the mirror: what the scheduler ought to know.
func (c *checker) bars(m *mirrored, n *facts.Node, off ...facts.UID) string {
	if !c.s.tied {
		return ""
	}
	var all judge.Population
	for _, n := range c.nodes {
		all.Nodes = append(all.Nodes, n)
	}
	for _, other := range c.pods {
		if at := c.nodes[other.node]; at != nil && other != m && !slices.Contains(off, other.uid) {
			all.Pods = append(all.Pods, other.resident(at))
		}
	}
	return all.Refusal(m.resident(nil), n)
}

func (m *mirrored) resident(n *facts.Node) *judge.Resident {
	return &judge.Resident{Namespace: m.namespace, Labels: m.labels, Requirements: m.requirements, Deleting: m.deleting, Node: n}
}

func (a *model) resident(p *pod) *judge.Resident {
	id := a.identity(p)
	r := &judge.Resident{Namespace: id.Namespace, Labels: id.Labels, Requirements: a.requirements(p), Deleting: p.deleting, Node: nil}
	if p.node != nowhere {
		r.Node = a.nodes[p.node].object
	}
	return r
}

// population is what the API server has, without some; nothing where no constraint asks.
func (s *simulation) population(off func(*pod) bool) *judge.Population {
	var all judge.Population
	if !s.tied {
		return &all
	}
	a := s.api
	for i := range a.nodes {
		n := &a.nodes[i]
		if !n.present {
			continue
		}
		all.Nodes = append(all.Nodes, n.object)
		for _, at := range n.pods {
			if p := &a.pods[at]; off == nil || !off(p) {
				all.Pods = append(all.Pods, a.resident(p))
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
				if key := judge.AntiAffinity(s.api.resident(p), s.api.resident(q), n.object, n.object); key != "" {
					s.violate("pods %s and %s are both on node %s: anti-affinity of the first over %s", p.uid, q.uid, n.object.Name, key)
				}
			}
		}
	}
}
