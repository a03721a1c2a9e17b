package cluster

import (
	"cmp"
	"slices"
)

// UnitName names a unit: the namespace and the name of its PodGroup.
type UnitName struct{ Namespace, Name string }

// String returns namespace/name.
func (n UnitName) String() string { return n.Namespace + "/" + n.Name }

// IsZero reports whether it names nothing: a pod that is a unit of its own.
func (n UnitName) IsZero() bool { return n == UnitName{} }

// UnitFacts is a PodGroup as a door saw it. It is immutable: a change is a new UnitFacts.
type UnitFacts struct {
	UnitName
	UID     UID
	Created int64 // nanoseconds, see PodFacts
	// MinMember pods must have places together before any of them is bound; at least 1.
	MinMember int32
	// Timeout in nanoseconds from Created, after which the unit is said to have timed out; 0: the configuration's.
	Timeout int64
	// Priority of all members, if Prioritized; else each pod has its own.
	Priority      int32
	Prioritized   bool
	NeverPreempts bool
	// Indivisible: members are evicted all together or not at all, even those beyond MinMember.
	Indivisible bool
	// Topology of the whole unit; SubgroupTopology of each subgroup for itself.
	Topology, SubgroupTopology Packing
	// Scheduled: the PodGroup says that it was whole once.
	Scheduled bool
	// Invalid says which field cannot be honoured and what to do; its pods are held. Empty: nothing.
	Invalid string
	// Reported is the condition that the PodGroup carries already.
	Reported UnitCondition
}

// UnitCondition is the PodGroupInitiallyScheduled condition; the zero value is none.
type UnitCondition struct {
	Met             bool // status True
	Reason, Message string
}

// Packing is what a unit asks of the topology. Each field is a node label, empty for nothing asked.
type Packing struct {
	// Required: all members in one domain of it.
	Required string
	// Preferred: in one domain of it if one holds them, else in as few as it takes.
	Preferred string
	// Spread: evenly over its domains, as far as they have room.
	Spread string
	// Uniform: the label has one value on all the members' nodes, for example one GPU model.
	Uniform string
}

// IsZero reports whether nothing is asked.
func (p Packing) IsZero() bool { return p == Packing{} }

// Unit is the ledger's record of a gang. Only the Store changes it; others read.
type Unit struct {
	UnitName
	// Facts is nil while no PodGroup of the name is known.
	Facts *UnitFacts

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

// Unit returns the record of a unit, nil when neither a PodGroup nor a pod of it is known.
func (s *Store) Unit(name UnitName) *Unit { return s.units[name] }

// EachUnit visits every unit, in no particular order.
func (s *Store) EachUnit(visit func(*Unit)) {
	for _, u := range s.units {
		visit(u)
	}
}

// Gangs reports whether the ledger knows any unit of several members that stand or fall together.
func (s *Store) Gangs() bool { return s.atomic > 0 }

func (s *Store) unit(name UnitName) *Unit {
	u := s.units[name]
	if u == nil {
		u = &Unit{UnitName: name}
		s.units[name] = u
	}
	return u
}

// dropUnit forgets a unit that nothing is left of.
func (s *Store) dropUnit(u *Unit) {
	if u.Facts == nil && len(u.pods) == 0 {
		delete(s.units, u.UnitName)
	}
}

// join makes a pod a member of the unit of that name (zero: of none).
func (s *Store) join(pod *Pod, name UnitName) {
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
			s.changed(old)
		}
		pod.Unit = nil
		if last == 0 {
			old.done = 0
		}
		old.sawEnd()
		s.dropUnit(old)
	}
	if name.IsZero() {
		return
	}
	u := s.unit(name)
	pod.Unit, pod.seat = u, int32(len(u.pods))
	u.pods = append(u.pods, pod)
	if pod.Phase == Finished {
		u.done++
	}
	if pod.Placed() {
		u.placed++
		u.bound += pod.certain()
		u.sawWhole()
		s.changed(u)
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
func (s *Store) recountUnit(pod *Pod, change func()) {
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
	s.changed(u)
}

// changed makes ChangedUnits name the unit.
func (s *Store) changed(u *Unit) {
	if !u.changed {
		u.changed = true
		s.changedUnits = append(s.changedUnits, u)
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
func (s *Store) setPhase(pod *Pod, phase Phase) {
	if pod.Unit != nil && phase == Finished && pod.Phase != Finished {
		pod.Unit.done++
	}
	s.recountUnit(pod, func() { pod.Phase = phase })
}

// setDeleting takes note that a pod is being deleted, or is not.
func (s *Store) setDeleting(pod *Pod, deleting bool) {
	s.recountUnit(pod, func() { pod.Deleting = deleting })
}

func (s *Store) upsertUnit(facts *UnitFacts) {
	u := s.unit(facts.UnitName)
	if u.Facts == nil || !sameUnit(*u.Facts, *facts) {
		s.setFacts(u, facts)
		return
	}
	u.Facts = facts // what has been reported is nothing to its pods
	s.changed(u)
}

// sameUnit reports whether two observations of a PodGroup differ in its status at most.
func sameUnit(a, b UnitFacts) bool {
	a.Scheduled, a.Reported = b.Scheduled, b.Reported
	return a == b
}

func (s *Store) removeUnit(name UnitName) {
	if u := s.units[name]; u != nil && u.Facts != nil {
		s.setFacts(u, nil)
		s.dropUnit(u)
	}
}

func (s *Store) setFacts(u *Unit, facts *UnitFacts) {
	if u.Atomic() {
		s.atomic--
	}
	if facts == nil || u.Facts != nil && u.Facts.UID != facts.UID {
		u.reached, u.done = false, 0
	}
	u.Facts = facts
	if u.Atomic() {
		s.atomic++
	}
	u.sawWhole()
	s.changed(u)
	for _, pod := range u.pods {
		if priority := u.priorityOf(pod.own); priority != pod.Priority {
			pod.Priority = priority
			s.rerank(pod.slot)
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

func (s *Store) listUnits(list []*UnitFacts) {
	listed := make(map[UnitName]bool, len(list))
	for _, f := range list {
		listed[f.UnitName] = true
	}
	var gone []UnitName
	for name, u := range s.units {
		if u.Facts != nil && !listed[name] {
			gone = append(gone, name)
		}
	}
	slices.SortFunc(gone, compareUnitNames)
	for _, name := range gone {
		s.removeUnit(name)
	}
	for _, f := range list {
		s.upsertUnit(f)
	}
}

func compareUnitNames(a, b UnitName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
