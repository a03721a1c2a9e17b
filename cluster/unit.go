package cluster

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// Unit is the ledger's record of a gang. Only the Store changes it; others read.
type Unit struct {
	facts.UnitName
	// Facts is nil while no PodGroup of the name is known.
	Facts *facts.Unit

	pods    []*Pod           // that name it
	placed  int              // of them, charged to a node or an orphan, and not being deleted
	bound   int              // of those, on a node for certain
	done    int              // members that were seen to finish
	reached bool             // MinMember members were bound at once, and something of it is left
	lapsed  bool             // reached, but then nothing was left of it, and nothing was placed since
	noted   changes.Revision // in Units.changed

	// evicting are members whose eviction was asked for and not refused for certain. While the unit has fallen, those that have left stay here.
	evicting map[facts.UID]asked
	// fell: an eviction took a member without whom the others are too few, or must not stay.
	fell bool
}

// asked is how often the API server was asked to evict a member, less its refusals; several ask for their own reasons. lost: an answer was lost, so that the member
// may leave even if all else was refused.
type asked struct {
	times int
	lost  bool
}

// Pods returns the members that are known, in no particular order; the caller must not change the slice.
func (u *Unit) Pods() []*Pod { return u.pods }

// Placed is the number of members that are on a node, or on their way to one, and not being deleted.
func (u *Unit) Placed() int { return u.placed }

// Bound is how many of those are on their node for certain.
func (u *Unit) Bound() int { return u.bound }

// Partial reports whether the unit has some places, but fewer than it needs, and was never whole: a part of its Bindings was refused, or
// members were deleted on their way. It cannot begin, and holds room in vain.
//
// Or it was whole, and fell.
func (u *Unit) Partial() bool {
	switch {
	case u.Facts == nil || u.placed == 0:
		return false
	case u.fell:
		return u.Facts.Indivisible || u.placed+u.done < u.MinMember()
	}
	return u.placed < u.MinMember() && !u.Running()
}

// Staying is how many members are on their nodes for certain and are not being evicted.
func (u *Unit) Staying() int {
	if len(u.evicting) == 0 {
		return u.bound
	}
	n := 0
	for _, pod := range u.pods {
		if !u.Evicted(pod.UID) {
			n += pod.certain()
		}
	}
	return n
}

// Fell reports whether an eviction has taken a member without whom the others are too few. They have to follow, unless others come in its place in time.
func (u *Unit) Fell() bool { return u.fell }

// MinMember is how many members must be placed together; 1 while its PodGroup is not known.
func (u *Unit) MinMember() int {
	if u.Facts == nil {
		return 1
	}
	return max(int(u.Facts.MinMember), 1)
}

// Running reports whether the unit was whole once and some of it is still there, so that members which come later join it.
func (u *Unit) Running() bool {
	return !u.fell && (u.reached || u.Facts != nil && u.Facts.Scheduled) && u.placed+u.done > 0
}

// Need is how many of the members that wait must get places together: what is missing of MinMember, or, where the unit runs already, 1.
func (u *Unit) Need() int {
	if u.Running() {
		return 1
	}
	return max(u.missing(), 1)
}

// NeedOf is how many of some members that have places must get other places together: as many as the unit needs beside the rest, which may be more than they are. Where the
// rest is enough, or the unit runs, all of them: each could go alone, but the others would lose what has been freed for them.
func (u *Unit) NeedOf(members int) int {
	if missing := u.missing() + members; !u.Running() && missing > 0 {
		return missing
	}
	return members
}

// missing is how many members have to get places before the unit runs; none if it is not positive.
func (u *Unit) missing() int {
	if u.fell { // what has finished ran beside the others
		return u.MinMember() - u.placed - u.done
	}
	return u.MinMember() - u.placed
}

// Ready reports whether the PodGroup is known and can be honoured.
func (u *Unit) Ready() bool { return u.Facts != nil && u.Facts.Invalid == "" }

// Spare is how many members of an atomic unit may be evicted one by one: those beyond MinMember. All else goes whole.
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
func (u *Unit) Atomic() bool {
	return u.Facts != nil && !u.Facts.Divisible && (u.Facts.MinMember > 1 || u.Facts.Indivisible)
}

// Placed reports whether the pod has a place, or is on its way to one, and is not being deleted.
func (p *Pod) Placed() bool { return (p.Phase == Assumed || p.Phase == Bound) && !p.Deleting }

// Units is the gangs by name, and how many of their members have places.
//
// A pod's phase and its deletion change only through setPhase and setDeleting, so that the counts of its unit follow: a gang of which three
// members are assumed, and one of them turns bound, has placed 3 and bound 1.
type Units struct {
	byName  map[facts.UnitName]*Unit
	changed changes.Things[*Unit]
	atomic  int // units that stand or fall together
}

// Get returns the record of a unit, nil when neither a PodGroup nor a pod of it is known.
func (b *Units) Get(name facts.UnitName) *Unit { return b.byName[name] }

// Each visits every unit, in no particular order.
func (b *Units) Each(visit func(*Unit)) {
	for _, u := range b.byName {
		visit(u)
	}
}

// Gangs reports whether there is any unit of several members that stand or fall together.
func (b *Units) Gangs() bool { return b.atomic > 0 }

// configured lists the units that have a PodGroup, sorted.
func (b *Units) configured() (list []facts.UnitName) {
	for name, u := range b.byName {
		if u.Facts != nil {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, facts.CompareUnitNames)
	return list
}

func (b *Units) get(name facts.UnitName) *Unit {
	u := b.byName[name]
	if u == nil {
		u = &Unit{UnitName: name}
		b.byName[name] = u
	}
	return u
}

// drop forgets a unit that nothing is left of.
func (b *Units) drop(u *Unit) {
	if u.Facts == nil && len(u.pods) == 0 {
		delete(b.byName, u.UnitName)
	}
}

// join makes a pod a member of the unit of that name (zero: of none).
func (b *Units) join(pod *Pod, name facts.UnitName) {
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
			old.lost(pod.UID)
			b.note(old)
		}
		if !old.fell || last == 0 {
			delete(old.evicting, pod.UID)
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
	if pod.Phase == Finished && !u.Evicted(pod.UID) {
		b.finish(u)
		u.sawWhole()
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

// recount lets change change what the pod counts as in its unit.
func (b *Units) recount(pod *Pod, change func()) {
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
		u.lost(pod.UID)
	}
	u.sawWhole()
	u.sawEnd()
	b.note(u)
}

// Evicting takes note that the API server is asked to evict a pod, or to delete it. If it leaves, its unit may fall.
func (b *Units) Evicting(pod *Pod) {
	u := pod.Unit
	if u == nil || !u.Atomic() {
		return
	}
	if u.evicting == nil {
		u.evicting = make(map[facts.UID]asked)
	}
	a := u.evicting[pod.UID]
	a.times++
	u.evicting[pod.UID] = a
}

// NotEvicted takes note of an answer that was none, once for each call of Evicting at most: the API server has not evicted a pod, and will not; or, if the answer was
// lost, may have done so or may yet.
func (b *Units) NotEvicted(pod *Pod, lost bool) {
	u := pod.Unit
	if u == nil {
		return
	}
	a, ok := u.evicting[pod.UID]
	if !ok {
		return
	}
	a.times, a.lost = max(a.times-1, 0), a.lost || lost
	if u.evicting[pod.UID] = a; a.times == 0 && !a.lost {
		delete(u.evicting, pod.UID)
	}
}

// lost takes note that a member has lost its place. The unit falls if it was evicted; others that are on their way may still be refused.
func (u *Unit) lost(uid facts.UID) {
	if _, evicted := u.evicting[uid]; evicted && u.Facts != nil && (u.Facts.Indivisible || u.bound+u.done < u.MinMember()) {
		u.fell = true
	}
}

// Evicted reports whether the API server was asked to evict a member and has not refused: if the member is still there, it may leave at any time; if it has left,
// it did not end by itself.
func (u *Unit) Evicted(uid facts.UID) bool {
	_, ok := u.evicting[uid]
	return ok
}

// note makes Changed name the unit.
func (b *Units) note(u *Unit) { b.changed.Note(u, &u.noted) }

// finish counts a member that has finished. That it has, and that it is no longer among the pods that run, is seen by two watches in any order:
//
//	the last member leaves    nothing is left of the unit, which lapses
//	the member has finished   so it has not lapsed: the next generation's members join one by one
func (b *Units) finish(u *Unit) {
	u.done++
	u.reached = u.reached || u.lapsed
	b.note(u)
}

// sawWhole takes note that MinMember members are bound at once, or were: those that have finished ran beside the others. What a Binding has not
// confirmed may still be refused.
func (u *Unit) sawWhole() {
	if u.Facts != nil && u.bound+u.done >= u.MinMember() {
		u.reached = true
		if u.fell && !u.Facts.Indivisible {
			u.stand()
		}
	}
	if u.placed > 0 {
		u.lapsed = false
	}
}

// sawEnd takes note that nothing is left of a unit: it has to become whole anew.
func (u *Unit) sawEnd() {
	if u.placed == 0 && (u.done == 0 || u.Facts != nil && u.Facts.Indivisible) {
		u.stand() // none is left that could follow
	}
	if u.placed+u.done == 0 {
		u.lapsed = u.lapsed || u.reached
		u.reached = false
	}
}

// stand ends that the unit has fallen. Members that are still to be evicted may leave yet, and count then; those that have left do not.
func (u *Unit) stand() {
	u.fell = false
	maps.DeleteFunc(u.evicting, func(uid facts.UID, _ asked) bool {
		return !slices.ContainsFunc(u.pods, func(pod *Pod) bool { return pod.UID == uid })
	})
}

// setPhase is the only way in which a pod's phase changes.
func (b *Units) setPhase(pod *Pod, phase Phase) {
	finishes := pod.Unit != nil && phase == Finished && pod.Phase != Finished && !pod.Unit.Evicted(pod.UID)
	if finishes {
		b.finish(pod.Unit)
	}
	b.recount(pod, func() { pod.Phase = phase })
	if finishes {
		pod.Unit.sawWhole() // now that it counts once
	}
}

// setDeleting takes note that a pod is being deleted, or is not.
func (b *Units) setDeleting(pod *Pod, deleting bool) {
	b.recount(pod, func() { pod.Deleting = deleting })
}

// set takes in what is known of a unit's PodGroup; nil: there is none. It returns the unit if that is anything to its members; those that have another priority now
// are noted in the log of victims.
func (b *Units) set(name facts.UnitName, seen *facts.Unit, log *victimLog) *Unit {
	u := b.byName[name]
	switch {
	case seen == nil && (u == nil || u.Facts == nil):
		return nil
	case seen == nil:
		b.setFacts(u, nil, log)
		b.drop(u)
		return u
	case u != nil && u.Facts != nil && facts.SameUnit(*u.Facts, *seen):
		u.Facts = seen // what has been reported is nothing to its pods
		b.note(u)
		return nil
	}
	u = b.get(name)
	b.setFacts(u, seen, log)
	return u
}

func (b *Units) setFacts(u *Unit, seen *facts.Unit, log *victimLog) {
	if u.Atomic() {
		b.atomic--
	}
	if seen == nil || u.Facts != nil && u.Facts.UID != seen.UID {
		u.reached, u.lapsed, u.done, u.fell, u.evicting = false, false, 0, false, nil
	}
	u.Facts = seen
	if u.Atomic() {
		b.atomic++
	} else if u.fell {
		u.stand() // a member that was evicted takes nobody along any more
	}
	u.sawWhole()
	b.note(u)
	for _, pod := range u.pods {
		if priority := u.priorityOf(pod.own); priority != pod.Priority {
			pod.Priority = priority
			log.note(pod.slot)
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

// Changed appends to list the units whose PodGroup or number of placed members has changed since the cursor, and moves the cursor. A unit that
// is gone may be among them. A reader that has fallen too far behind gets all units, by name.
func (b *Units) Changed(since *changes.Revision, list []*Unit) []*Unit {
	from := len(list)
	list, complete := b.changed.Since(since, list)
	if !complete {
		list = slices.AppendSeq(list[:from], maps.Values(b.byName))
		slices.SortFunc(list[from:], func(u, v *Unit) int { return facts.CompareUnitNames(u.UnitName, v.UnitName) })
	}
	return list
}
