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

// redecideObliged takes note of what has changed, and decides the obliged units anew whose own nodes have.
func (s *Scheduler) redecideObliged(now time.Time) (decisions int) {
	s.obliged.recheck()
	return s.redecideOwn(now)
}

// redecideOwn looks at the obliged units whose own nodes have changed. One that must not be bound there any more gets other places, or gives its own
// up. One that fits there as it is waits no longer. It returns how many it has decided.
func (s *Scheduler) redecideOwn(now time.Time) (decisions int) {
	waits := slices.Clone(s.obliged.own)
	s.obliged.own = s.obliged.own[:0]
	for _, u := range waits {
		u.listed = false
	}
	slices.Reverse(waits) // where not all fit any more, the least important gives way
	waits = slices.DeleteFunc(waits, func(u *obligedUnit) bool {
		if s.obliged.movable(u) {
			return false
		}
		if s.obliged.byPod[u.members[0].UID] == u {
			s.obliged.list(u) // until the answer to its write is there
		}
		return true
	})
	for _, u := range waits {
		if s.obliged.byPod[u.members[0].UID] != u {
			continue // another of this round has ended its waiting
		}
		u.since = s.store.Revision()
		misfit, why := s.misfit(u)
		if misfit == "" {
			continue
		}
		decisions++
		if !s.redecide(u, now) {
			s.binder.GiveUp(misfit, "the node has changed: "+why)
			s.report(now)
		}
	}
	slices.Reverse(waits)
	for _, u := range waits {
		if s.obliged.byPod[u.members[0].UID] == u && u.group.class != nil && s.redecideOn(u, now) {
			decisions++
		}
	}
	return decisions
}

// misfit is the first member that must not be bound to its node any more, and why; empty if there is none.
func (s *Scheduler) misfit(u *obligedUnit) (uid facts.UID, why string) {
	for _, pod := range u.members {
		if why := s.binder.Recheck(pod.UID); why != "" {
			return pod.UID, why
		}
	}
	return "", ""
}

// redecideNext decides the most important obliged unit anew for which there may be room, before the queue has its turn. It goes first where the unit in
// turn is not of higher priority: it was there before.
func (s *Scheduler) redecideNext(now time.Time) (decided bool) {
	if !s.obliged.due() {
		return false
	}
	priority := int32(math.MinInt32)
	if first := s.queue.First(); first != nil {
		priority = first.Priority
	}
	u := s.obliged.next(priority)
	if u == nil {
		return false
	}
	s.redecide(u, now)
	return true
}

// redecide gives an obliged unit other places, where there is room for it as it is. What it has now, it keeps if there is none.
func (s *Scheduler) redecide(u *obligedUnit, now time.Time) (placed bool) {
	in := s.instances[s.dispatcher.Choose()]
	snapshot := in.snapshot
	snapshot.Advance(s.store)
	mark := snapshot.Mark()
	for _, pod := range u.members {
		snapshot.Lift(pod)
	}
	var plan *cluster.Plan
	lacking := 0
	if pod := u.members[0]; u.group.class != nil {
		if choice, ok := in.anywhere(s.store.Slot(pod.Node()), pod); ok {
			plan = in.plan(pod, choice)
		}
	} else {
		plan, lacking = s.redecideGang(in, u)
	}
	snapshot.Rollback(mark)
	if plan != nil && s.replace(u, plan, now) {
		return true
	}
	u.group.tried(lacking, s.store.Revision())
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

// redecideOn lets a single pod have its own node now, if it fits there as it is. Whoever has reserved the node since came later.
func (s *Scheduler) redecideOn(u *obligedUnit, now time.Time) (placed bool) {
	in, pod := s.instances[s.dispatcher.Choose()], u.members[0]
	slot := s.store.Slot(pod.Node())
	in.snapshot.Advance(s.store)
	mark := in.snapshot.Mark()
	in.snapshot.Lift(pod)
	in.snapshot.Open(slot)
	choice, ok := in.placers.For(pod).PlaceOn(slot, pod.Class)
	in.snapshot.Rollback(mark)
	if ok {
		plan := in.plan(pod, choice)
		plan.Through = s.store.Reservation(slot)
		if s.replace(u, plan, now) {
			return true
		}
	}
	u.since = s.store.Revision()
	return false
}

// redecideGang looks for places for the members of an obliged gang, as if they had none. Without, it counts for how many members there are none.
func (s *Scheduler) redecideGang(in *instance, u *obligedUnit) (plan *cluster.Plan, lacking int) {
	gang := u.members[0].Unit
	ask := &pack.Ask{Members: u.members, Need: u.need(), Topology: gang.Facts.Topology, Subgroups: gang.Facts.SubgroupTopology}
	for _, pod := range gang.Pods() {
		if !pod.Placed() || slices.Contains(u.members, pod) {
			continue
		}
		if slot := s.store.Slot(pod.Node()); slot != cluster.NoSlot {
			ask.Anchors = append(ask.Anchors, pack.Anchor{Slot: slot, Subgroup: pod.Subgroup})
		}
	}
	decider := in.placers.For(u.members[0])
	if placed, ok := decider.PlaceUnit(ask); ok {
		return in.unitPlan(placed), 0
	}
	need := ask.Need
	ask.Need = 1
	return nil, max(need-decider.WouldFit(ask), 1)
}

// replace proposes a Plan that gives an obliged unit other places. Members without a new place wait again.
func (s *Scheduler) replace(u *obligedUnit, plan *cluster.Plan, now time.Time) bool {
	for _, pod := range u.members {
		plan.Replaces = append(plan.Replaces, pod.UID)
	}
	plan.Decided = now.UnixNano()
	before := s.store.Revision()
	verdict := s.propose(plan, facts.Condition{})
	if !verdict.Committed {
		s.obliged.rejected(u, before)
		s.observer.Rejected(verdict.Reason, now)
		s.report(now)
		return false
	}
	s.obliged.forget(u.members[0].UID)
	s.refreshUnits(now)
	for i := range plan.Placements {
		pod := s.store.Pod(plan.Placements[i].Pod)
		if pod.Placeholder() { // nobody's latency
			continue
		}
		s.observer.Released(pod, "there is room for it that no victim has to leave", now)
		s.observer.Placed(pod, now)
	}
	s.report(now)
	return true
}
