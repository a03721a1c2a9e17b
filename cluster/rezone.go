package cluster

import (
	"cmp"
	"maps"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// What a pod holds of its node's zones is, in this order: what the node reports, which is true; what the Binding recorded; else a guess. What the
// node reports for pods that are not there is charged too. All of it follows from the pods and the newest reports, whatever the order in
// which they were seen; but a pod that has left is not charged until the node says once more that it is there.

// reported is the newest report of a node.
type reported struct {
	*NodeReport
	// left are pods that it names and that have left since.
	left map[UID]bool
}

// Confirmed reports whether the pod's node says what the pod holds of its zones.
func (p *Pod) Confirmed() bool { return p.confirmed }

// Moved reports whether the node gave the pod other zones than its Binding promised.
func (p *Pod) Moved() bool {
	return p.confirmed && p.recorded != nil && !sameZones(p.recorded, p.zones)
}

// Promise returns what the pod's Binding said of zones, nil where it said nothing; the caller must not change it.
func (p *Pod) Promise() *topology.ZoneGrant {
	switch {
	case p.confirmed:
		return p.recorded
	case p.guessed:
		return nil
	}
	return p.zones
}

// confirm makes the pod hold what its node says: a part of the report, which nobody changes.
func (p *Pod) confirm(held *topology.ZoneGrant) {
	p.recorded, p.zones, p.confirmed = p.Promise(), given(held), true
}

// given returns a grant, nil in place of one that gives nothing.
func given(g *topology.ZoneGrant) *topology.ZoneGrant {
	if g.IsZero() {
		return nil
	}
	return g
}

// copyZones returns a copy of a grant, nil of one that gives nothing.
func copyZones(g *topology.ZoneGrant) *topology.ZoneGrant {
	if g.IsZero() { // before anything else: the usual case is not to allocate
		return nil
	}
	copied := *g
	return &copied
}

// sameZones reports whether two grants give the same; nil gives nothing.
func sameZones(a, b *topology.ZoneGrant) bool { return a == b || a != nil && b != nil && *a == *b }

// forgetZones leaves the pod with what its Binding said.
func (p *Pod) forgetZones() {
	p.zones, p.recorded, p.confirmed = p.Promise(), nil, false
}

// report takes in a node's newest report; nil: there is none any more.
func (s *Store) report(node string, r *NodeReport) {
	old := s.reports[node]
	switch {
	case r == nil && old == nil, r != nil && old != nil && SameReport(old.NodeReport, r) && len(old.left) == 0:
		return
	case r == nil:
		delete(s.reports, node)
	default:
		s.reports[node] = &reported{NodeReport: r}
	}
	s.wish(node, r)
	slot, known := s.slots[node]
	if !known {
		return
	}
	before := *s.zoneRow(slot)
	requested := [...]int64{s.scoreCPU[slot], s.scoreMemory[slot]}
	s.zones[slot].report = r
	s.rezone(slot)
	after := s.zones[slot]
	var headroom *Headroom
	if r != nil {
		headroom = &r.Headroom
	}
	changed := s.lend(slot, headroom)
	if requested != [...]int64{s.scoreCPU[slot], s.scoreMemory[slot]} || before.free != after.free || !sameShape(before.report, r) {
		changed |= Freed | Charged
	}
	if changed == 0 && !sameHeadroom(before.report, r) {
		changed = Recalled // nothing in amounts, but why there is none
	}
	if changed != 0 {
		s.note(slot, changed)
	} // else the node has only confirmed what was known, and nobody need look again
}

func sameHeadroom(a, b *NodeReport) bool {
	var none NodeReport
	return cmp.Or(a, &none).Headroom == cmp.Or(b, &none).Headroom
}

func sameShape(a, b *NodeReport) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Zones == b.Zones && a.Why == b.Why
}

func (s *Store) listReports(list []NodeReported) {
	listed := make(map[string]bool, len(list))
	for i := range list {
		listed[list[i].Node] = true
	}
	for _, node := range slices.Sorted(maps.Keys(s.reports)) {
		if !listed[node] {
			s.report(node, nil)
		}
	}
	for i := range list {
		s.report(list[i].Node, list[i].Report)
	}
}

// enterZones begins the row of a node that was not known.
func (s *Store) enterZones(slot Slot, node string) {
	if r := s.reports[node]; r != nil {
		s.zoneRow(slot).report = r.NodeReport
		s.rezone(slot)
	}
}

// settleZones makes the pod hold what its node reports, before it is charged there.
func (s *Store) settleZones(pod *Pod, slot Slot) {
	if len(s.reports) == 0 {
		return
	}
	held, ok := s.Report(slot).holds(pod.UID)
	if !ok {
		return
	}
	delete(s.reports[pod.node].left, pod.UID)
	pod.confirm(held)
}

// depart takes note that a pod has left a node which may still name it.
func (s *Store) depart(pod *Pod, slot Slot, node string) {
	if len(s.reports) == 0 {
		return
	}
	if _, ok := s.Report(slot).holds(pod.UID); ok {
		r := s.reports[node]
		if r.left == nil {
			r.left = make(map[UID]bool)
		}
		r.left[pod.UID] = true
	}
}

// guessesZones reports whether what the pod holds of zones is a guess.
func (p *Pod) guessesZones() bool { return p.guessed && !p.confirmed }

// touchesZones reports whether a pod coming or going changes more of the slot's row than its own grant: others are guessed, or its node names it.
func (s *Store) touchesZones(slot Slot, pod *Pod) bool {
	if pod.Class.Zones.IsZero() && pod.zones == nil { // before the row, which is far away in memory
		return false
	}
	row := s.zones[slot]
	if row == nil {
		return false
	}
	_, held := row.report.holds(pod.UID)
	return held || s.zoneGuesses[slot] > 0
}

// rezone rebuilds a slot's row: what is recorded and reported first, then the guesses in UID order, so that the result does not depend on the
// order in which pods were seen. Pods that are lifted for a judgement keep what they have.
func (s *Store) rezone(slot Slot) {
	row := s.zones[slot]
	if row == nil {
		return // there are none, and a guess is nothing
	}
	node := s.nodes[slot].Name
	shape, _ := s.Zones(slot)
	free := topology.NewZoneFree(shape)
	var guessed []*Pod
	s.zoneGuesses[slot] = 0
	for _, pod := range s.onSlot[slot] {
		if !pod.lifted {
			s.confirm(pod, slot, row.report)
		}
		switch {
		case pod.guessesZones():
			s.zoneGuesses[slot]++
			if !pod.lifted {
				guessed = append(guessed, pod)
			}
		case !pod.lifted && pod.zones != nil:
			free.Commit(pod.zones)
		}
	}
	s.eachForeign(slot, node, func(h *HeldZones) { free.Commit(&h.Grant) })
	slices.SortFunc(guessed, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, pod := range guessed {
		grant := topology.ForceZones(shape, &free, pod.Class.Zones)
		pod.zones = copyZones(&grant)
		free.Commit(&grant)
	}
	row.free = free
}

// confirm makes a pod that is charged to the slot hold what the report says, or what it was recorded to. The row itself is not changed.
func (s *Store) confirm(pod *Pod, slot Slot, r *NodeReport) {
	held, ok := r.holds(pod.UID)
	if !ok && !pod.confirmed {
		return
	}
	s.moveExcess(slot, pod.Class, pod.zones, -1)
	s.promises.count(pod, -1)
	pod.forgetZones()
	if ok {
		pod.confirm(held)
	}
	s.promises.count(pod, 1)
	s.moveExcess(slot, pod.Class, pod.zones, 1)
}

// eachForeign visits what the slot's node says is held by pods that are not there.
func (s *Store) eachForeign(slot Slot, node string, visit func(*HeldZones)) {
	r := s.reports[node]
	if r == nil {
		return
	}
	for i := range r.Held {
		h := &r.Held[i]
		if pod := s.pods[h.UID]; (pod == nil || pod.slot != slot) && !r.left[h.UID] {
			visit(h)
		}
	}
}
