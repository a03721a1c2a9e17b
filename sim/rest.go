package sim

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/judge"
)

// This file holds what must be true of gangs and queues when nothing is left to happen. It looks at the API server's objects. What it finds
// is certain, for it shows a place; what it cannot show it lets pass.

// restTenants holds all of it.
func (s *simulation) restTenants() {
	if !s.tenanted {
		return
	}
	used := s.api.usage()
	for _, f := range s.api.tenants.ListUnits() {
		s.checkWhole(f)
		s.checkStrandedUnit(f, used)
	}
	if s.o.Preempt {
		s.checkOwed(used)
	}
}

// checkWhole: no gang holds places with fewer members than it needs, unless it had them all at once before. What others bind is theirs.
func (s *simulation) checkWhole(f *facts.Unit) {
	if slices.ContainsFunc(s.api.members(f.UnitName), func(i int32) bool { return s.api.pods[i].foreign }) {
		return
	}
	bound, ended := s.api.has(f.UnitName)
	if bound > 0 && bound+ended < int(f.MinMember) && !s.api.units[s.api.numberOf(f.UnitName)].whole {
		s.violate("at rest, but unit %s has %d of the %d members that it needs, and was never whole", f.UnitName, bound, f.MinMember)
	}
}

// waiting are the members that want a place, by name.
func (a *model) waiting(name facts.UnitName) []*pod {
	var list []*pod
	for _, i := range a.members(name) {
		if p := &a.pods[i]; p.ours && p.node == nowhere && !p.deleting && !p.gated && !p.finished {
			list = append(list, p)
		}
	}
	return list
}

// checkStrandedUnit looks for a gang that waits though enough of its members would fit: first fit, domain by domain, on nodes that are kept
// free for nobody. Gangs whose subgroups are packed, or whose pods have constraints between them, are let pass.
func (s *simulation) checkStrandedUnit(f *facts.Unit, used judge.Bill) {
	list := s.api.waiting(f.UnitName)
	need := 1
	s.api.sawUnit(f.UnitName, s.now)
	if bound, ended := s.api.has(f.UnitName); bound+ended == 0 || !f.Scheduled && !s.api.units[s.api.numberOf(f.UnitName)].runs {
		need = max(int(f.MinMember)-bound, 1)
	}
	if f.Invalid != "" || len(list) < need || !f.SubgroupTopology.IsZero() || s.tied {
		return
	}
	for _, domain := range s.domains(f) {
		if s.packs(list, need, domain, used, false) {
			s.violate("at rest, but unit %s waits though %d of its members would fit together, on nodes %s and after", f.UnitName, need, domain[0].object.Name)
			return
		}
	}
}

// domains are the sets of nodes of which one must hold a unit.
func (s *simulation) domains(f *facts.Unit) [][]*node {
	var all []*node
	for i := range s.api.nodes {
		if n := &s.api.nodes[i]; n.present && !s.kept(n) {
			all = append(all, n)
		}
	}
	sets := [][]*node{all}
	for _, label := range []string{f.Topology.Required, f.Topology.Uniform} {
		if label != "" {
			sets = split(sets, label)
		}
	}
	anchors := s.anchors(f)
	sets = slices.DeleteFunc(sets, func(set []*node) bool {
		return len(set) == 0 || slices.ContainsFunc(anchors, func(a *node) bool {
			return slices.ContainsFunc([]string{f.Topology.Required, f.Topology.Uniform}, func(label string) bool {
				return label != "" && a.object.Labels[label] != set[0].object.Labels[label]
			})
		})
	})
	return sets
}

// anchors are the nodes of the members that run.
func (s *simulation) anchors(f *facts.Unit) []*node {
	var list []*node
	for _, i := range s.api.members(f.UnitName) {
		if p := &s.api.pods[i]; p.node != nowhere && !p.finished {
			list = append(list, &s.api.nodes[p.node])
		}
	}
	return list
}

// split parts sets of nodes by a label; nodes without it drop out.
func split(sets [][]*node, label string) [][]*node {
	var parts [][]*node
	for _, set := range sets {
		at := make(map[string]int)
		for _, n := range set {
			value, ok := n.object.Labels[label]
			if !ok {
				continue
			}
			if _, known := at[value]; !known {
				at[value] = len(parts)
				parts = append(parts, nil)
			}
			parts[at[value]] = append(parts[at[value]], n)
		}
	}
	return parts
}

// kept says whether a node is kept free for somebody.
func (s *simulation) kept(n *node) bool {
	if s.scheduler == nil {
		return false
	}
	store := s.scheduler.Store()
	slot := store.Slot(n.object.Name)
	return slot != cluster.NoSlot && store.Reservation(slot) != cluster.NoReservation
}

// packs says whether so many of the pods fit on the nodes together, first fit, and into their queues; empty: as if nothing was there.
func (s *simulation) packs(list []*pod, need int, nodes []*node, used judge.Bill, empty bool) bool {
	on := make([][]judge.Occupant, len(nodes))
	if !empty {
		for i, n := range nodes {
			on[i] = s.api.occupants(n)
		}
	}
	asks := make(judge.Bill)
	for _, p := range list {
		if need == 0 {
			break
		}
		r := s.api.requirements(p)
		for i, n := range nodes {
			if !n.fitsOurs(on[i], r) {
				continue
			}
			grant, _ := judge.SomeGrant(n.object, on[i], r.GPU)
			on[i] = append(on[i], judge.Occupant{Requirements: r, Grant: grant})
			asks.Add(s.api.tenants, s.api.identity(p).Namespace, r)
			need--
			break
		}
	}
	return need == 0 && !s.refuses(s.api.unitOf(list[0]), used, asks)
}

// refuses says whether a limit leaves no room for what somebody asks, or what is left of it is kept for another unit, as nodes are.
func (s *simulation) refuses(who facts.UnitName, used, asks judge.Bill) bool {
	t := s.api.tenants
	if t.Refusal(used, asks) != "" {
		return true
	}
	for name := range asks {
		unit, kept := s.scheduler.Gate().Claims.Of(s.scheduler.Store().Quota().Queue(name))
		if unit == who {
			continue
		}
		for _, q := range kept {
			if asked := asks[name][q.Name]; asked > 0 && used[name][q.Name]+q.Amount+asked > t.Limit(name, q.Name) {
				return true
			}
		}
	}
	return false
}

// asksOf is the bill of one pod.
func (s *simulation) asksOf(p *pod) judge.Bill {
	b := make(judge.Bill)
	b.Add(s.api.tenants, s.api.identity(p).Namespace, s.api.requirements(p))
	return b
}

// checkOwed looks for single pods that wait though their queue, and those above it that the other is not below, would stay within their
// guarantees with them, and one pod that another queue has wholly borrowed is in the way. A queue that is beyond its own guarantee takes
// nothing, even if the one above it is within its.
func (s *simulation) checkOwed(used judge.Bill) {
	type kind struct{ group, what string }
	checked := make(map[kind]bool)
	for i := range s.api.pods {
		p := &s.api.pods[i]
		k := kind{s.w.Tasks[p.task].Group, string(p.uid)}
		if !p.exists || !p.ours || p.node != nowhere || p.deleting || p.gated || s.w.Tasks[p.task].Unit != "" || checked[k] {
			continue
		}
		checked[k] = true
		if s.tied || s.refuses(facts.UnitName{}, used, s.asksOf(p)) {
			continue
		}
		for j := range s.api.nodes {
			if n := &s.api.nodes[j]; n.present && !s.kept(n) {
				s.owes(p, n, used)
			}
		}
	}
}

// owes holds that no pod on the node is wholly borrowed from the guarantee of a pod that waits and would fit without it.
func (s *simulation) owes(p *pod, n *node, used judge.Bill) {
	t, asks := s.api.tenants, s.asksOf(p)
	for _, at := range n.pods {
		v := &s.api.pods[at]
		if !v.ours || v.deleting || s.w.Tasks[v.task].Unit != "" {
			continue
		}
		from, to := s.api.identity(v).Namespace, s.api.identity(p).Namespace
		side, mine := t.Side(from, to), t.Side(to, from)
		if side == "" || mine == "" || t.KeepsBorrowed(from, side) {
			continue
		}
		within, borrowed := t.WithinGuarantee(t.QueueOf(to), mine, used, asks), true
		for r, amount := range judge.Charge(s.api.requirements(v)) {
			borrowed = borrowed && (r == resource.NamePods || used[side][r]-amount >= t.Guaranteed(side, r))
		}
		var stay []judge.Occupant
		for _, other := range n.pods {
			if other != at {
				stay = append(stay, judge.Occupant{Requirements: s.api.requirements(&s.api.pods[other]), Grant: s.api.pods[other].grant})
			}
		}
		if within && borrowed && n.fitsOurs(stay, s.api.requirements(p)) {
			s.violate("at rest, but pod %s waits within the guarantee of queue %s, while %s on node %s is borrowed by queue %s", p.uid, mine, v.uid, n.object.Name, side)
		}
	}
}
