package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/queue"
	"hilbert.dev/hilbert/schedule/reserve"
)

// places serves the Reservations that people create: it lets pods that wait have the rooms that are kept for them, and ends places whose time is over. The ledger
// keeps the rooms; who owns which, and whose place comes early, package reserve knows.
//
// An owner that is served takes nothing from anybody else: it gets the room of a place, or nothing.
type places struct {
	d      *decisions
	owners *reserve.Owners
	turns  *reserve.Turns
}

// end ends places of Reservations whose time is over or whose room is gone.
func (p *places) end(now time.Time) {
	for _, e := range slices.Clone(p.d.store.EndPlaces(now.UnixNano())) {
		p.d.waiting.apply(e, now)
	}
}

// serve lets pods that wait have the rooms that are kept for them, before the queue has its turn. It takes nothing from anybody, so neither priority nor a
// queue's limit is asked. It returns how many decisions it made.
func (p *places) serve(now time.Time) (decisions int) {
	for _, set := range p.owners.Due() {
		var full []*cluster.Class // for which there is no room
		for _, pod := range p.owners.Of(set) {
			u := p.d.queue.Unit(pod.UID)
			if u != nil && !p.d.queue.Waits(u) {
				continue // it is tried later in this round
			}
			served := p.owners.Try(set, pod.UID, func() bool {
				if u == nil || slices.Contains(full, pod.Class) {
					return false
				}
				decisions++
				return p.serveOwner(u, set, now)
			})
			if !served && u != nil && u.Gang == nil {
				full = append(full, pod.Class)
			}
		}
	}
	return decisions
}

// serveOwner gives a unit the rooms of placeholders of a set, to all members that it needs or to none.
func (p *places) serveOwner(u *queue.Unit, set *cluster.PlaceholderSet, now time.Time) bool {
	a := attempt{d: p.d, unit: u, in: p.d.instance(), now: now}
	snapshot := a.in.snapshot
	snapshot.Advance(p.d.store)
	mark := snapshot.Mark()
	plan := &cluster.Plan{Revision: snapshot.Revision(), Scheduler: a.in.number}
	placeholders := p.d.store.Placeholders().Reserved(set, nil)
	for _, pod := range u.Members() {
		if p.d.store.Placeholders().Owns(set, pod) {
			placeholders = a.takeRoom(plan, pod, placeholders)
		}
	}
	snapshot.Rollback(mark)
	if len(plan.Placements) == 0 || len(plan.Placements) < u.Need() {
		return false
	}
	p.d.queue.Take(u)
	return a.commit(plan, facts.Condition{})
}

// takeRoom adds to a Plan that a pod has the room of the first placeholder in whose place it fits, and returns the placeholders that are left.
func (a *attempt) takeRoom(plan *cluster.Plan, pod *cluster.Pod, placeholders []*cluster.Pod) (left []*cluster.Pod) {
	snapshot, decider := a.in.snapshot, a.in.placers.For(pod)
	for i, placeholder := range placeholders {
		slot := a.d.store.Slot(placeholder.Node())
		through := a.d.store.Reservation(slot) // whoever has reserved the node since came later
		if through != cluster.NoReservation && plan.Through != cluster.NoReservation && through != plan.Through {
			continue
		}
		mark := snapshot.Mark()
		snapshot.Lift(placeholder)
		if through != cluster.NoReservation {
			snapshot.Open(slot)
		}
		choice, ok := decider.PlaceOn(slot, pod.Class)
		if !ok {
			snapshot.Rollback(mark)
			continue
		}
		snapshot.Assume(slot, pod, choice.Grant)
		plan.Placements = append(plan.Placements, cluster.Placement{Pod: pod.UID, Node: placeholder.Node(), Grant: choice.Grant})
		plan.Takes = append(plan.Takes, placeholder.UID)
		if through != cluster.NoReservation {
			plan.Through = through
		}
		return slices.Delete(slices.Clone(placeholders), i, i+1)
	}
	return placeholders
}

// nextWake is when the next Reservation expires.
func (p *places) nextWake() (time.Time, bool) {
	at, ok := p.d.store.Placeholders().NextExpiry()
	return time.Unix(0, at), ok
}
