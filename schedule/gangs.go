package schedule

import (
	"fmt"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/deadline"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/queue"
)

// reserveShare of ReserveAfter is the least time between two choices of nodes to reserve.
const reserveShare = 8

func (s *Scheduler) reserveEvery() time.Duration { return s.cfg.Units.ReserveAfter.D() / reserveShare }

// runTimers looks at the gangs whose time has come, and chooses the nodes to reserve for those that have waited long.
func (s *Scheduler) runTimers(now time.Time) {
	for t := s.gangs.pop(now); t != nil; t = s.gangs.pop(now) {
		s.checkGang(t, now)
		s.gangs.set(t, now)
	}
	s.blocked.retryReclaims(now)
	if reservations := s.gate.Reservations; reservations.Due(now, s.reserveEvery()) {
		for _, u := range reservations.Choose(now) {
			why := facts.Condition{Reason: spec.ReasonUnschedulable}
			if known := s.blocked.explanations.of(u.Shape); known != nil {
				why = known.condition
			}
			s.setConditions(u, why, now)
		}
	}
}

// nextTimer is when runTimers has something to do though nothing happens.
func (s *Scheduler) nextTimer() (time.Time, bool) {
	var next deadline.Earliest
	next.Add(s.gangs.next())
	next.Add(s.blocked.nextReclaim())
	next.Add(s.gate.Reservations.Next(s.reserveEvery()))
	return next.Time()
}

// checkGang tells a gang that its members are missing or its time is up, counts it among those for which nodes may be reserved, and takes the
// places away that it holds in part.
func (s *Scheduler) checkGang(t *gangTimer, now time.Time) {
	if s.gangs.broken(t, now) {
		s.dissolve(t.gang)
	}
	u := s.queue.Gang(t.gang)
	if u == nil || !t.gang.Ready() {
		return
	}
	late := s.gangs.timedOut(t.gang, now)
	if late {
		s.gate.Release(t.gang.UnitName)
	}
	switch {
	case len(u.Members()) < u.Need():
		if s.gangs.gathered(t, now) {
			s.setConditions(u, missingMembers(u), now)
		}
	case late:
		if why := s.blocked.explanations.of(u.Shape); why != nil {
			s.setConditions(u, why.condition, now)
		}
	case s.gangs.reserves(t, now):
		s.gate.Reservations.Want(u, t.parked)
	}
}

// dissolve evicts the members of a gang that has some places, but too few to start, and cannot get the others. No other unit can have those
// places meanwhile, and two such gangs could block one another.
func (s *Scheduler) dissolve(gang *cluster.Unit) {
	why := fmt.Sprintf("only %d of the %d members that the gang needs could be bound; the gang starts again as a whole", gang.Placed(), gang.MinMember())
	if gang.Fell() {
		why = fmt.Sprintf("others of the gang were evicted, and the %d members that are left cannot run without them; the gang starts again as a whole", gang.Placed())
	}
	for _, pod := range gang.Pods() {
		if pod.Phase == cluster.Bound && pod.Ours && !pod.Deleting {
			s.binder.Evict(pod.UID, facts.Condition{Reason: spec.ReasonGangDissolved, Message: why})
		}
	}
}

// refreshUnits takes note of the gangs that have changed: what they need, and whether they are complete, or hold places in part.
func (s *Scheduler) refreshUnits(now time.Time) {
	s.gangs.list = s.store.Units().Changed(&s.gangs.seen, s.gangs.list[:0])
	for _, u := range s.gangs.list {
		s.queue.Refresh(u)
		if u.Facts == nil {
			s.binder.Conditions().ForgetUnit(u.UnitName)
			s.podEvents.ForgetUnit(u.UnitName)
		} else if u.Bound() >= u.MinMember() {
			whole := facts.UnitCondition{
				Met: true, Reason: spec.ReasonScheduled, Message: fmt.Sprintf("%d members have places, %d are needed", u.Bound(), u.MinMember()),
			}
			if s.binder.Conditions().SetUnit(u, whole, now) && !s.noPodEvents {
				s.podEvents.UnitPlaced(u, whole.Message)
			}
		}
		waits := s.queue.Gang(u)
		if waits != nil {
			s.blocked.membersMoved(waits)
		}
		s.gangs.changed(u, waits != nil, now)
	}
}

// setConditions sets the condition of a unit's PodGroup and of its members that wait.
func (s *Scheduler) setConditions(u *queue.Unit, why facts.Condition, now time.Time) {
	said := ofPods(why)
	if u.Gang != nil {
		if x := s.gate.Reservations.Of(u.Gang.UnitName); x != nil && (why.Reason == spec.ReasonUnschedulable || why.Reason == spec.ReasonTopologyPlacementFailed) {
			why = reservedCondition(x, why)
			said = ofPods(why)
		}
		if s.gangs.timedOut(u.Gang, now) {
			why = facts.Condition{Reason: spec.ReasonTimedOut, Message: "not complete within its timeout; Hilbert keeps trying. " + why.Message}
			said.Message = why.Reason + ": " + why.Message
		}
		if s.binder.Conditions().SetUnit(u.Gang, facts.UnitCondition{Reason: why.Reason, Message: why.Message}, now) && !s.noPodEvents {
			s.podEvents.UnitFailed(u.Gang, why.Message)
		}
	}
	for _, pod := range u.Members() {
		s.sayWhy(pod, said, now)
	}
}

// reservedCondition is the condition of a gang for which nodes are reserved: how many are, and why it does not fit yet.
func reservedCondition(x *admit.Reservation, why facts.Condition) facts.Condition {
	return facts.Condition{
		Reason:  spec.ReasonReserved,
		Message: strings.TrimSpace(fmt.Sprintf("%d nodes are reserved for it; it starts when enough pods on them have ended. %s", len(x.Slots), why.Message)),
	}
}

func missingMembers(u *queue.Unit) facts.Condition {
	return facts.Condition{
		Reason: spec.ReasonWaitingForMembers,
		Message: fmt.Sprintf("%d members wait and %d are placed, but %d are needed together; scheduling continues when the other members exist",
			len(u.Members()), u.Gang.Placed(), u.Gang.MinMember()),
	}
}
