package sim

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
)

// This file looks for single pods that wait at rest though they need not.

// checkStranded looks for pods that wait though they would fit. Pods of equal requirements and labels are looked at once.
//
// Counting all pods for every node takes too long in large clusters: with constraints between pods it is left to runs that are checked.
func (s *simulation) checkStranded() {
	if s.tied && s.check == nil {
		return
	}
	type kind struct {
		r     *facts.Requirements
		group string
	}
	hopeless := make(map[kind]bool)
	all := s.population(nil)
	used := s.api.usage()
	for i := range s.api.pods {
		p := &s.api.pods[i]
		r := s.api.requirements(p)
		k := kind{r, s.w.Tasks[p.task].Group}
		if !p.exists || !p.ours || p.node != nowhere || p.deleting || hopeless[k] || s.awaits(p, used) {
			continue
		}
		for j := range s.api.nodes {
			n := &s.api.nodes[j]
			if n.present && !s.kept(n) && n.fitsOurs(s.api.occupants(n), r) && all.Refusal(s.api.resident(p), n.object) == "" {
				s.violate("pod %s waits though node %s has room for it", p.uid, n.object.Name)
				return
			}
		}
		hopeless[k] = true
	}
	if s.o.Preempt {
		s.checkMeek(used)
	}
}

// awaits says whether a pod has to wait for more than a node: for its unit, which is looked at as a whole, or for its queue.
func (s *simulation) awaits(p *pod, used judge.Bill) bool {
	return s.tenanted && (s.w.Tasks[p.task].Unit != "" || s.refuses(facts.UnitName{}, used, s.asksOf(p)))
}

// checkMeek looks for pods that wait though they could have preempted.
func (s *simulation) checkMeek(used judge.Bill) {
	type kind struct {
		r        *facts.Requirements
		group    string
		priority int32
	}
	checked := make(map[kind]bool)
	for i := range s.api.pods {
		p := &s.api.pods[i]
		k := kind{s.api.requirements(p), s.w.Tasks[p.task].Group, s.w.Tasks[p.task].Priority}
		if !p.exists || !p.ours || p.node != nowhere || p.deleting || checked[k] || s.awaits(p, used) {
			continue
		}
		checked[k] = true
		for j := range s.api.nodes {
			n := &s.api.nodes[j]
			meek := func(other *pod) bool {
				return other.node == int32(j) && s.w.Tasks[other.task].Priority < k.priority && s.yields(other, p)
			}
			var stay []judge.Occupant
			for _, at := range n.pods {
				if other := &s.api.pods[at]; !meek(other) {
					stay = append(stay, judge.Occupant{Requirements: s.api.requirements(other), Grant: other.grant})
				}
			}
			if n.present && !s.kept(n) && len(stay) < len(n.pods) && n.fitsOurs(stay, k.r) && s.population(meek).Refusal(s.api.resident(p), n.object) == "" {
				s.violate("pod %s waits though it could preempt on node %s", p.uid, n.object.Name)
				return
			}
		}
	}
}

// yields says whether a pod of lower priority has to make room for another: in one queue it has, if it is no part of a gang.
func (s *simulation) yields(other, p *pod) bool {
	if !s.tenanted {
		return true
	}
	t := s.api.tenants
	queue := t.QueueOf(s.api.identity(p).Namespace)
	f := t.Queues[queue]
	return s.w.Tasks[other.task].Unit == "" && t.QueueOf(s.api.identity(other).Namespace) == queue && (f == nil || !f.NeverPreempts)
}
