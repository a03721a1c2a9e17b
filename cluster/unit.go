package cluster

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Unit is the ledger's record of a gang. Only the Store changes it; others read.
type Unit struct {
	facts.UnitName
	// Facts is nil while no PodGroup of the name is known.
	Facts *facts.Unit

	pods    []*Pod // that name it
	placed  int    // of them, charged to a node or an orphan, and not being deleted
	bound   int    // of those, on a node for certain
	done    int    // members that were seen to finish
	reached bool   // MinMember members were bound at once, and something of it is left
	changed bool   // since ChangedUnits
}

// Pods returns the members that are known, in no particular order; the caller must not change the slice.
func (u *Unit) Pods() []*Pod { return u.pods }

// Placed is the number of members that are on a node, or on their way to one, and not being deleted.
func (u *Unit) Placed() int { return u.placed }

// Bound is how many of those are on their node for certain.
func (u *Unit) Bound() int { return u.bound }

// Partial reports whether the unit has some places, but fewer than it needs, and was never whole: a part of its Bindings was refused, or
// members were deleted on their way. It cannot begin, and holds room in vain.
func (u *Unit) Partial() bool {
	return u.Facts != nil && u.placed > 0 && u.placed < u.MinMember() && !u.Running()
}

// MinMember is how many members must be placed together; 1 while its PodGroup is not known.
func (u *Unit) MinMember() int {
	if u.Facts == nil {
		return 1
	}
	return max(int(u.Facts.MinMember), 1)
}

// Running reports whether the unit was whole once and some of it is still there, so that members which come later join it.
func (u *Unit) Running() bool {
	return (u.reached || u.Facts != nil && u.Facts.Scheduled) && u.placed+u.done > 0
}

// Need is how many of the members that wait must get places together: what is missing of MinMember, or, where the unit runs already, 1.
func (u *Unit) Need() int {
	if u.Running() {
		return 1
	}
	return max(u.MinMember()-u.placed, 1)
}

// Ready reports whether the PodGroup is known and can be honoured.
func (u *Unit) Ready() bool { return u.Facts != nil && u.Facts.Invalid == "" }

// Spare is how many members may be evicted one by one: those beyond MinMember. All else goes whole.
func (u *Unit) Spare() int {
	if u.Facts == nil {
		return u.placed
	}
	if u.Facts.Indivisible {
		return 0
	}
	if u.placed < u.MinMember() {
		return 0
	}
	return u.placed - u.MinMember()
}

// Atomic reports whether the unit is more than its pods: evicting one can mean evicting all.
func (u *Unit) Atomic() bool { return u.Facts != nil && (u.Facts.MinMember > 1 || u.Facts.Indivisible) }

// Placed reports whether the pod has a place, or is on its way to one, and is not being deleted.
func (p *Pod) Placed() bool { return (p.Phase == Assumed || p.Phase == Bound) && !p.Deleting }

// unitBook is the units by name, and how many of their members have places.
//
// A pod's phase and its deletion change only through setPhase and setDeleting, so that the counts of its unit follow: a gang of which three
// members are assumed, and one of them turns bound, has placed 3 and bound 1.
type unitBook struct {
	byName  map[facts.UnitName]*Unit
	changed []*Unit // since ChangedUnits was called last
	atomic  int     // units that stand or fall together
}

// Unit returns the record of a unit, nil when neither a PodGroup nor a pod of it is known.
func (s *Store) Unit(name facts.UnitName) *Unit { return s.units.byName[name] }

// EachUnit visits every unit, in no particular order.
func (s *Store) EachUnit(visit func(*Unit)) {
	for _, u := range s.units.byName {
		visit(u)
	}
}

// Gangs reports whether the ledger knows any unit of several members that stand or fall together.
func (s *Store) Gangs() bool { return s.units.atomic > 0 }

func (b *unitBook) get(name facts.UnitName) *Unit {
	u := b.byName[name]
	if u == nil {
		u = &Unit{UnitName: name}
		b.byName[name] = u
	}
	return u
}

// dropUnit forgets a unit that nothing is left of.
func (b *unitBook) drop(u *Unit) {
	if u.Facts == nil && len(u.pods) == 0 {
		delete(b.byName, u.UnitName)
	}
}

// join makes a pod a member of the unit of that name (zero: of none).
func (b *unitBook) join(pod *Pod, name facts.UnitName) {
	if old := pod.Unit; old != nil {
		if old.UnitName == name {
			return
		}
		last := len(old.pods) - 1
		old.pods[pod.seat], old.pods[last].seat = old.pods[last], pod.seat
		old.pods[last] = nil
		old.pods = old.pods[:last]
		if pod.Placed() {
			old.placed--
			old.bound -= pod.certain()
			b.note(old)
		}
		pod.Unit = nil
		if last == 0 {
			old.done = 0
		}
		old.sawEnd()
		b.drop(old)
	}
	if name.IsZero() {
		return
	}
	u := b.get(name)
	pod.Unit, pod.seat = u, int32(len(u.pods))
	u.pods = append(u.pods, pod)
	if pod.Phase == Finished {
		u.done++
	}
	if pod.Placed() {
		u.placed++
		u.bound += pod.certain()
		u.sawWhole()
		b.note(u)
	}
}

// certain is 1 for a member that is on a node, 0 for one on its way.
func (p *Pod) certain() int {
	if p.Phase == Bound && !p.Deleting {
		return 1
	}
	return 0
}

// recountUnit lets change change what the pod counts as in its unit.
func (b *unitBook) recount(pod *Pod, change func()) {
	u := pod.Unit
	if u == nil {
		change()
		return
	}
	before, certain := pod.Placed(), pod.certain()
	change()
	after := pod.Placed()
	if after == before && certain == pod.certain() {
		return
	}
	u.bound += pod.certain() - certain
	switch {
	case after && !before:
		u.placed++
	case before && !after:
		u.placed--
	}
	u.sawWhole()
	u.sawEnd()
	b.note(u)
}

// changed makes ChangedUnits name the unit.
func (b *unitBook) note(u *Unit) {
	if !u.changed {
		u.changed = true
		b.changed = append(b.changed, u)
	}
}

// sawWhole takes note that MinMember members are bound at once. What a Binding has not confirmed may still be refused.
func (u *Unit) sawWhole() {
	if u.Facts != nil && u.bound >= u.MinMember() {
		u.reached = true
	}
}

// sawEnd takes note that nothing is left of a unit: it has to become whole anew.
func (u *Unit) sawEnd() {
	if u.placed+u.done == 0 {
		u.reached = false
	}
}

// setPhase is the only way in which a pod's phase changes.
func (b *unitBook) setPhase(pod *Pod, phase Phase) {
	if pod.Unit != nil && phase == Finished && pod.Phase != Finished {
		pod.Unit.done++
	}
	b.recount(pod, func() { pod.Phase = phase })
}

// setDeleting takes note that a pod is being deleted, or is not.
func (b *unitBook) setDeleting(pod *Pod, deleting bool) {
	b.recount(pod, func() { pod.Deleting = deleting })
}

func (s *Store) upsertUnit(seen *facts.Unit) {
	u := s.units.get(seen.UnitName)
	if u.Facts == nil || !facts.SameUnit(*u.Facts, *seen) {
		s.setFacts(u, seen)
		return
	}
	u.Facts = seen // what has been reported is nothing to its pods
	s.units.note(u)
}

func (s *Store) removeUnit(name facts.UnitName) {
	if u := s.units.byName[name]; u != nil && u.Facts != nil {
		s.setFacts(u, nil)
		s.units.drop(u)
	}
}

func (s *Store) setFacts(u *Unit, seen *facts.Unit) {
	if u.Atomic() {
		s.units.atomic--
	}
	if seen == nil || u.Facts != nil && u.Facts.UID != seen.UID {
		u.reached, u.done = false, 0
	}
	u.Facts = seen
	if u.Atomic() {
		s.units.atomic++
	}
	u.sawWhole()
	s.units.note(u)
	for _, pod := range u.pods {
		if priority := u.priorityOf(pod.own); priority != pod.Priority {
			pod.Priority = priority
			s.noteVictims(pod.slot)
		}
		if pod.wants() {
			s.emit(pod)
		}
	}
}

// priorityOf is the priority of a member whose own is given.
func (u *Unit) priorityOf(own int32) int32 {
	if u != nil && u.Facts != nil && u.Facts.Prioritized {
		return u.Facts.Priority
	}
	return own
}

func (s *Store) listUnits(list []*facts.Unit) {
	listed := make(map[facts.UnitName]bool, len(list))
	for _, f := range list {
		listed[f.UnitName] = true
	}
	var gone []facts.UnitName
	for name, u := range s.units.byName {
		if u.Facts != nil && !listed[name] {
			gone = append(gone, name)
		}
	}
	slices.SortFunc(gone, facts.CompareUnitNames)
	for _, name := range gone {
		s.removeUnit(name)
	}
	for _, f := range list {
		s.upsertUnit(f)
	}
}

// ChangedUnits returns the units whose PodGroup or number of placed members has changed since the last call, and forgets them. A unit that
// is gone may be among them. The slice is valid until the ledger changes.
func (s *Store) ChangedUnits() []*Unit {
	list := s.units.changed
	for _, u := range list {
		u.changed = false
	}
	s.units.changed = s.units.changed[:0]
	return list
}
