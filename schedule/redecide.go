package schedule

import (
	"math"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/pack"
)

// redecider decides obliged units anew when something has changed that may help them, or that keeps them from their places. Which units that are, obliged knows.
//
// A unit keeps its places until a Plan is committed that gives it others; it gives them up only when it must not be bound there any more.
//
// Example: pod p waits on n1 for victim v. n2 comes back empty. next finds p due, lifts it off n1 in an instance's snapshot, finds n2, and replace proposes the Plan
// that gives p n2 for n1.
type redecider struct {
	d       *decisions
	obliged *obliged
}

// changed takes note of what has changed, and decides the obliged units anew whose own nodes have.
func (x *redecider) changed(now time.Time) (decisions int) {
	x.obliged.recheck()
	return x.own(now)
}

// own looks at the obliged units whose own nodes have changed. One that must not be bound there any more gets other places, or gives its own
// up. One that fits there as it is waits no longer. It returns how many it has decided.
func (x *redecider) own(now time.Time) (decisions int) {
	waits := slices.Clone(x.obliged.own)
	x.obliged.own = x.obliged.own[:0]
	for _, u := range waits {
		u.listed = false
	}
	slices.Reverse(waits) // where not all fit any more, the least important gives way
	waits = slices.DeleteFunc(waits, func(u *obligedUnit) bool {
		if x.obliged.movable(u) {
			return false
		}
		if x.obliged.byPod[u.members[0].UID] == u {
			x.obliged.list(u) // until the answer to its write is there
		}
		return true
	})
	for _, u := range waits {
		if x.obliged.byPod[u.members[0].UID] != u {
			continue // another of this round has ended its waiting
		}
		u.since = x.d.store.Revision()
		misfit, why := x.misfit(u)
		if misfit == "" {
			continue
		}
		decisions++
		if !x.anew(u, now) {
			x.d.binder.GiveUp(misfit, "the node has changed: "+why)
			x.d.waiting.report(now)
		}
	}
	slices.Reverse(waits)
	for _, u := range waits {
		if x.obliged.byPod[u.members[0].UID] == u && u.group.class != nil && x.onOwn(u, now) {
			decisions++
		}
	}
	return decisions
}

// misfit is the first member that must not be bound to its node any more, and why; empty if there is none.
func (x *redecider) misfit(u *obligedUnit) (uid facts.UID, why string) {
	for _, pod := range u.members {
		if why := x.d.binder.Recheck(pod.UID); why != "" {
			return pod.UID, why
		}
	}
	return "", ""
}

// next decides the most important obliged unit anew for which there may be room, before the queue has its turn. It goes first where the unit in
// turn is not of higher priority: it was there before.
func (x *redecider) next(now time.Time) (decided bool) {
	if !x.obliged.due() {
		return false
	}
	priority := int32(math.MinInt32)
	if first := x.d.queue.First(); first != nil {
		priority = first.Priority
	}
	u := x.obliged.next(priority)
	if u == nil {
		return false
	}
	x.anew(u, now)
	return true
}

// anew gives an obliged unit other places, where there is room for it as it is. What it has now, it keeps if there is none.
func (x *redecider) anew(u *obligedUnit, now time.Time) (placed bool) {
	in := x.d.instance()
	snapshot := in.snapshot
	snapshot.Advance(x.d.store)
	mark := snapshot.Mark()
	for _, pod := range u.members {
		snapshot.Lift(pod)
	}
	var plan *cluster.Plan
	lacking := 0
	if pod := u.members[0]; u.group.class != nil {
		if choice, ok := in.anywhere(x.d.store.Slot(pod.Node()), pod); ok {
			plan = in.plan(pod, choice)
		}
	} else {
		plan, lacking = x.gang(in, u)
	}
	snapshot.Rollback(mark)
	if plan != nil && x.replace(u, plan, now) {
		return true
	}
	u.group.tried(lacking, x.d.store.Revision())
	return false
}

// anywhere is the best node for a pod; a certain one, if it fits there.
func (in *instance) anywhere(first cluster.Slot, pod *cluster.Pod) (choice index.Choice, ok bool) {
	decider := in.placers.For(pod)
	if first != cluster.NoSlot {
		if choice, ok = decider.PlaceOn(first, pod.Class); ok {
			return choice, true
		}
	}
	return decider.Place(pod.Class)
}

// onOwn lets a single pod have its own node now, if it fits there as it is. Whoever has reserved the node since came later.
func (x *redecider) onOwn(u *obligedUnit, now time.Time) (placed bool) {
	in, pod := x.d.instance(), u.members[0]
	slot := x.d.store.Slot(pod.Node())
	in.snapshot.Advance(x.d.store)
	mark := in.snapshot.Mark()
	in.snapshot.Lift(pod)
	in.snapshot.Open(slot)
	choice, ok := in.placers.For(pod).PlaceOn(slot, pod.Class)
	in.snapshot.Rollback(mark)
	if ok {
		plan := in.plan(pod, choice)
		plan.Through = x.d.store.Reservation(slot)
		if x.replace(u, plan, now) {
			return true
		}
	}
	u.since = x.d.store.Revision()
	return false
}

// gang looks for places for the members of an obliged gang, as if they had none. Without, it counts for how many members there are none.
func (x *redecider) gang(in *instance, u *obligedUnit) (plan *cluster.Plan, lacking int) {
	gang := u.members[0].Unit
	ask := &pack.Ask{Members: u.members, Need: u.need(), Topology: gang.Facts.Topology, Subgroups: gang.Facts.SubgroupTopology}
	for _, pod := range gang.Pods() {
		if !pod.Placed() || slices.Contains(u.members, pod) {
			continue
		}
		if slot := x.d.store.Slot(pod.Node()); slot != cluster.NoSlot {
			ask.Anchors = append(ask.Anchors, pack.Anchor{Slot: slot, Subgroup: pod.Subgroup})
		}
	}
	decider := in.placers.For(u.members[0])
	if placed, ok := decider.PlaceUnit(ask); ok {
		return in.unitPlan(placed), 0
	}
	return nil, leastLacking(decider, ask)
}

// replace proposes a Plan that gives an obliged unit other places. Members without a new place wait again.
func (x *redecider) replace(u *obligedUnit, plan *cluster.Plan, now time.Time) bool {
	for _, pod := range u.members {
		plan.Replaces = append(plan.Replaces, pod.UID)
	}
	plan.Decided = now.UnixNano()
	before := x.d.store.Revision()
	verdict := x.d.propose(plan, facts.Condition{})
	if !verdict.Committed {
		x.obliged.rejected(u, before)
		x.d.observer.Rejected(verdict.Reason, now)
		x.d.waiting.report(now)
		return false
	}
	x.obliged.forget(u.members[0].UID)
	x.d.gangs.refresh(now)
	for i := range plan.Placements {
		pod := x.d.store.Pod(plan.Placements[i].Pod)
		if pod.Placeholder() { // nobody's latency
			continue
		}
		x.d.observer.Released(pod, "there is room for it that no victim has to leave", now)
		x.d.observer.Placed(pod, now)
	}
	x.d.waiting.report(now)
	return true
}
