package schedule

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/deadline"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/queue"
)

// reserveShare of ReserveAfter is the least time between two choices of nodes to reserve.
const reserveShare = 8

// gangs does what a gang needs beside its turns: it says which members are missing, has nodes reserved for one that has waited long, takes the places away that
// one holds in part and cannot start with, and follows what the ledger knows of gangs. The timers say when.
//
// It places nobody and keeps no pod: a gang's members are in the queue, the binder or held as other pods are.
//
// Example: three of four members have come. After gatherGrace, check says so in the PodGroup's condition. The fourth comes, and the gang fits nowhere; after
// units.reserveAfter, reserve chooses nodes for it.
type gangs struct {
	timers  gangTimers
	store   *cluster.Store
	queue   *queue.Queue
	binder  *bind.Binder
	gate    *admit.Gate
	blocked *blocked
	notices *notices

	seen    changes.Revision // of the units' changes
	changed []*cluster.Unit  // scratch: those that have changed
}

func (g *gangs) reserveEvery() time.Duration { return g.timers.cfg.ReserveAfter.D() / reserveShare }

// checkDue looks at the gangs whose time has come.
func (g *gangs) checkDue(now time.Time) {
	for t := g.timers.pop(now); t != nil; t = g.timers.pop(now) {
		g.check(t, now)
		g.timers.set(t, now)
	}
}

// reserve chooses the nodes to reserve for gangs that have waited long.
func (g *gangs) reserve(now time.Time) {
	reservations := g.gate.Reservations
	if !reservations.Due(now, g.reserveEvery()) {
		return
	}
	for _, u := range reservations.Choose(now) {
		why := facts.Condition{Reason: spec.ReasonUnschedulable}
		if known := g.blocked.explanations.of(u.Shape); known != nil {
			why = known.condition
		}
		g.notices.sayWhyUnit(u, why, now)
	}
}

// nextWake is when checkDue or reserve have something to do though nothing happens.
func (g *gangs) nextWake() (time.Time, bool) {
	var next deadline.Earliest
	next.Add(g.timers.next())
	next.Add(g.gate.Reservations.Next(g.reserveEvery()))
	return next.Time()
}

// check tells a gang that its members are missing or its time is up, counts it among those for which nodes may be reserved, and takes the
// places away that it holds in part.
func (g *gangs) check(t *gangTimer, now time.Time) {
	if g.timers.broken(t, now) {
		g.dissolve(t.gang)
	}
	u := g.queue.Gang(t.gang)
	if u == nil || !t.gang.Ready() {
		return
	}
	late := g.timers.timedOut(t.gang, now)
	if late {
		g.gate.Release(t.gang.UnitName)
	}
	switch {
	case len(u.Members()) < u.Need():
		if g.timers.gathered(t, now) {
			g.notices.sayWhyUnit(u, missingMembers(u), now)
		}
	case late:
		if why := g.blocked.explanations.of(u.Shape); why != nil {
			g.notices.sayWhyUnit(u, why.condition, now)
		}
	case g.timers.reserves(t, now):
		g.gate.Reservations.Want(u, t.parked)
	}
}

// dissolve evicts the members of a gang that has some places, but too few to start, and cannot get the others. No other unit can have those
// places meanwhile, and two such gangs could block one another.
func (g *gangs) dissolve(gang *cluster.Unit) {
	why := fmt.Sprintf("only %d of the %d members that the gang needs could be bound; the gang starts again as a whole", gang.Placed(), gang.MinMember())
	if gang.Fell() {
		why = fmt.Sprintf("others of the gang were evicted, and the %d members that are left cannot run without them; the gang starts again as a whole", gang.Placed())
	}
	for _, pod := range gang.Pods() {
		if pod.Phase == cluster.Bound && pod.Ours && !pod.Deleting {
			g.binder.Evict(pod.UID, facts.Condition{Reason: spec.ReasonGangDissolved, Message: why})
		}
	}
}

// refresh takes note of the gangs that have changed: what they need, and whether they are complete, or hold places in part.
func (g *gangs) refresh(now time.Time) {
	g.changed = g.store.Units().Changed(&g.seen, g.changed[:0])
	for _, u := range g.changed {
		g.queue.Refresh(u)
		if u.Facts == nil {
			g.notices.forgetUnit(u.UnitName)
		} else if u.Bound() >= u.MinMember() {
			g.notices.sayWhole(u, now)
		}
		waits := g.queue.Gang(u)
		if waits != nil {
			g.blocked.membersMoved(waits)
		}
		g.timers.changed(u, waits != nil, now)
	}
}

func missingMembers(u *queue.Unit) facts.Condition {
	return facts.Condition{
		Reason: spec.ReasonWaitingForMembers,
		Message: fmt.Sprintf("%d members wait and %d are placed, but %d are needed together; scheduling continues when the other members exist",
			len(u.Members()), u.Gang.Placed(), u.Gang.MinMember()),
	}
}
