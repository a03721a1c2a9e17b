package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/profiles"
	"hilbert.dev/hilbert/schedule/queue"
)

// attempt is one turn of one unit: which instance decides, on what, and what the unit may ask for. Its methods are the strategies, and what
// they share. A single pod and a gang go the same way; the difference is that a gang's members are placed together.
type attempt struct {
	d    *decisions
	unit *queue.Unit
	in   *instance
	now  time.Time
	// lagging: the instance's snapshot may be older than the ledger. "It fits nowhere" is said of the newest state only.
	lagging bool
	// quotaAdmits says that the limits of the unit's queues leave room for ask, as admitted found; short is the limit that does not.
	quotaAdmits bool
	short       admit.Shortfall
	ask         *pack.Ask // nil until asked for: most single pods are placed without one
	// preempts says that the Plan is a preemption on one node; victims are all of its victims, also those that only had an assumed place.
	preempts bool
	victims  []*cluster.Pod
	// flushed says that the unit looks for free places only because a flush has woken it.
	flushed bool
}

// decider decides on the unit by its profile: that of its first member.
func (a *attempt) decider() *profiles.Decider { return a.in.placers.For(a.unit.Members()[0]) }

// admitted reports whether the limits of the unit's queues leave room for what it needs.
func (a *attempt) admitted() bool {
	if a.unit.Gang == nil {
		if _, a.quotaAdmits = a.d.gate.Admits(a.unit, a.unit.Class.Charge); a.quotaAdmits {
			return true
		}
	}
	a.ask, a.short, a.quotaAdmits = a.d.gate.Ask(a.unit)
	return a.quotaAdmits
}

// wanted is the members that the unit wants placed now, and how.
func (a *attempt) wanted() *pack.Ask {
	if a.ask == nil {
		a.ask, _, _ = a.d.gate.Ask(a.unit)
	}
	return a.ask
}

// mayLag reports whether the instance decides on what it has seen already. It must have seen what the unit waits for, and know its classes.
func (a *attempt) mayLag() bool {
	return a.d.lag(a.in.number) && a.in.snapshot.Revision() >= a.unit.NotBefore && a.knowsClasses()
}

func (a *attempt) knowsClasses() bool {
	if a.unit.Gang == nil {
		return a.in.snapshot.Counts().Knows(a.unit.Class.Constraints)
	}
	return !slices.ContainsFunc(a.ask.Members, func(pod *cluster.Pod) bool { return !a.in.snapshot.Counts().Knows(pod.Class.Constraints) })
}

// place puts the unit on nodes that are free, or that are reserved for it.
func (a *attempt) place() bool {
	decider := a.decider() // afterwards the unit may have no members that wait
	a.flushed = a.d.blocked.onlyFlushed(a.unit)
	placed := a.placeNow()
	if !placed && a.lagging {
		a.in.snapshot.Advance(a.d.store)
		a.lagging = false
		placed = a.placeNow()
	}
	a.flushed = false
	a.d.looked += decider.Looked()
	return placed
}

func (a *attempt) placeNow() bool {
	if a.unit.Gang == nil {
		return a.placePod()
	}
	return a.placeThrough(admit.Access{Through: a.d.gate.Reservations.Own(a.unit)})
}

// placePod chooses a node for a single pod: the one that a preemption has promised it, if it fits there now, else the best.
func (a *attempt) placePod() bool {
	pod, in := a.d.store.Pod(a.unit.Pod), a.in
	choice, ok := index.Choice{}, false
	if pod.Nominated != "" {
		choice, ok = a.decider().PlaceOn(a.d.store.Slot(pod.Nominated), pod.Class)
	}
	if !ok {
		if choice, ok = in.place(a.decider(), pod.Class); !ok {
			return false
		}
		choice = a.apart(pod, choice)
	}
	if a.commit(in.plan(pod, choice), facts.Condition{}) && a.lagging {
		in.snapshot.Assume(choice.Slot, pod, choice.Grant)
	}
	return true
}

// placeThrough looks for places and proposes them, as if the nodes of some reservations were open. It answers false, and gives none of
// the reservations up, when there are no places.
func (a *attempt) placeThrough(access admit.Access) bool {
	snapshot := a.in.snapshot
	mark := snapshot.Mark()
	access.Open(snapshot)
	placed, ok := a.placeUnit()
	if !ok {
		snapshot.Rollback(mark)
		return false
	}
	a.d.gate.Reservations.GiveUp(access.Lower)
	plan := a.in.unitPlan(placed)
	plan.Through = access.Through.Number()
	if !a.commit(plan, facts.Condition{}) {
		snapshot.Rollback(mark)
	}
	return true
}

// takeReserved places the unit on nodes that are reserved for gangs of lower rank. Others are chosen for those later.
func (a *attempt) takeReserved() bool {
	access := a.d.gate.Reservations.Access(a.unit, a.wanted().Members)
	return len(access.Lower) > 0 && a.placeThrough(access)
}

// reclaim evicts others for the unit: pods of lower priority, or of queues that use more than their guarantee.
func (a *attempt) reclaim() bool {
	if a.short.NeverFits() || !a.mayReclaim() {
		return false
	}
	snapshot := a.in.snapshot
	mark := snapshot.Mark()
	access := a.d.gate.Reservations.Access(a.unit, a.wanted().Members)
	access.Open(snapshot)
	a.looks()
	found, ok := a.decider().Reclaims.Evict(a.wanted(), a.now.UnixNano())
	snapshot.Rollback(mark)
	if !ok {
		a.d.blocked.noVictims(keyOf(a.unit), a.unit.Priority, &found)
		return false
	}
	plan := a.in.unitPlan(found.Placements)
	if pod := a.d.store.Pod(plan.Placements[0].Pod); !a.d.store.Placeholders().MayEvict(pod, plan.Placements[0].Node, found.Victims) {
		a.d.store.Placeholders().EndPermission(pod.UID)
		return false
	}
	a.d.gate.Reservations.GiveUp(access.Lower)
	plan.Reclaims, plan.Through = found.Reclaims, access.Through.Number()
	for _, victim := range found.Victims {
		plan.Victims = append(plan.Victims, victim.UID)
	}
	why, _ := a.explain()
	a.commit(plan, why.condition) // if that is refused, the unit has its next turn
	return true
}

// mayReclaim reports whether the unit may evict others now. One whose victims of before a restart are on their way out waits for them.
func (a *attempt) mayReclaim() bool {
	for _, pod := range a.wanted().Members {
		if pod.NeverPreempts {
			return false
		}
		if pod.Nominated != "" && a.decider().Preempts.AwaitsVictims(pod) {
			a.d.blocked.wantsVictims(keyOf(a.unit), a.unit.Priority)
			return false
		}
	}
	return a.d.blocked.mayHaveVictims(keyOf(a.unit), a.unit.Priority)
}

// reclaimEqual lets another unit of the same shape evict others, which would sleep with this one: one that may, where this one may not, or one of a higher
// priority, for which victims were not searched yet. This one has another turn then.
//
// Example: a place of a Reservation comes before a pod of its shape in a queue within its guarantee. The place evicts nobody; the pod takes back
// what is borrowed from the queue.
func (a *attempt) reclaimEqual() bool {
	for other := a.reclaimer(); other != nil; other = a.reclaimer() {
		if done, admitted := a.instead(other, (*attempt).reclaim); done || !admitted {
			return done // a limit blocks the other in a turn of its own
		}
	}
	return false
}

// instead gives the turn of this unit to another one of its shape. done: that ended the turn, and this unit has another one; admitted: the limits of the other's queue leave room.
func (a *attempt) instead(other *queue.Unit, try func(*attempt) bool) (done, admitted bool) {
	d := a.d
	d.queue.Take(other)
	its := attempt{d: a.d, unit: other, in: a.in, now: a.now}
	its.ask, its.short, its.quotaAdmits = d.gate.Ask(other)
	if its.quotaAdmits && try(&its) {
		d.queue.Return(a.unit)
		return true, true
	}
	d.queue.Return(other)
	return false, its.quotaAdmits
}

// firstAlike returns the most important of the other units of the shape that may do something; nil: none may.
func (a *attempt) firstAlike(may func(*queue.Unit) bool) (best *queue.Unit) {
	a.d.queue.EachAlike(a.unit, func(other *queue.Unit) {
		if other != a.unit && (best == nil || queue.Before(other, best)) && may(other) {
			best = other
		}
	})
	return best
}

// reclaimer returns the most important of the units that would sleep with this one which may evict others, and for which victims were not searched. nil: none.
func (a *attempt) reclaimer() *queue.Unit {
	// Where units come by priority, none has a higher one than the unit whose turn it is.
	if a.mayEvict(a.unit) && a.unit.Queue().Sort() != facts.FIFO && !a.unit.Early {
		return nil
	}
	key := keyOf(a.unit)
	return a.firstAlike(func(other *queue.Unit) bool {
		return a.d.blocked.mayHaveVictims(key, other.Priority) && a.mayEvict(other)
	})
}

// mayEvict reports whether a unit may evict others: no member must not, nor waits for its victims of before a restart.
func (a *attempt) mayEvict(u *queue.Unit) bool {
	return !slices.ContainsFunc(u.Members(), func(pod *cluster.Pod) bool {
		return pod.NeverPreempts || pod.Nominated != "" && a.in.placers.For(pod).Preempts.AwaitsVictims(pod)
	})
}

// backfill lets the unit use nodes that are reserved for another gang, if that gang may preempt it when its time has come, or if the unit has
// ended before.
func (a *attempt) backfill() bool {
	for _, x := range a.d.gate.Reservations.List() {
		if x.Backfills(a.unit, a.wanted().Members, a.now) && a.placeThrough(admit.Access{Through: x}) {
			return true
		}
	}
	return false
}

// backfillEqual lets another unit of the same shape backfill, which would sleep with this one. This one has another turn then.
func (a *attempt) backfillEqual() bool {
	other := a.backfiller()
	if other == nil {
		return false
	}
	done, _ := a.instead(other, (*attempt).backfill)
	return done
}

// backfiller returns the first of the units that would sleep with this one which may backfill, nil if none may.
func (a *attempt) backfiller() *queue.Unit {
	if len(a.d.gate.Reservations.List()) == 0 {
		return nil
	}
	return a.firstAlike(func(other *queue.Unit) bool { return a.d.gate.Reservations.Backfills(other, a.now) })
}

// blockByQuota lets the unit wait for a queue's limit.
func (a *attempt) blockByQuota() bool {
	if a.short.Granted {
		a.d.queue.BlockByGrant(a.unit, a.short.Shortfall)
	} else {
		a.d.queue.BlockByQuota(a.unit, a.short.Queue)
	}
	why := a.d.gate.Condition(&a.short)
	why.Message = continued(why.Message, a.d.blocked.protectedText(a.unit))
	a.d.notices.sayWhyUnit(a.unit, why, a.now)
	a.d.gangs.timers.waits(a.unit, true, a.now)
	return true
}

// park puts the unit's shape to sleep and reports why. The explanation is worked out, and reported of all units of the shape, at most once per
// conditions.minInterval; units that came meanwhile have it reported now.
func (a *attempt) park() bool {
	d := a.d
	why, fresh := a.explain()
	if a.unit.Gang != nil {
		d.blocked.sleeps(keyOf(a.unit), a.lacking())
	}
	d.blocked.park(a.unit, a.in.snapshot.Revision())
	d.observer.Unschedulable(a.unit.Members()[0], why.counts, a.now)
	condition := d.blocked.whyParked(a.unit, why)
	d.notices.sayWhyUnit(a.unit, condition, a.now)
	a.withdrawNominations()
	a.abandonDevices()
	d.gangs.timers.waits(a.unit, true, a.now)
	if fresh {
		d.queue.EachAlike(a.unit, func(other *queue.Unit) {
			if other != a.unit {
				d.notices.sayWhyUnit(other, condition, a.now)
			}
		})
	}
	for _, uid := range why.takeNewcomers() {
		if u := d.queue.Unit(uid); u != nil && u != a.unit && u.Shape == a.unit.Shape {
			d.notices.sayWhyUnit(u, d.blocked.whyParked(u, why), a.now)
		}
	}
	return true
}

// abandonDevices gives back the devices of claims that keep the unit on nodes that cannot take it.
func (a *attempt) abandonDevices() {
	for _, pod := range a.unit.Members() {
		if pod.Class.Claims != nil && len(pod.Class.Claims.Allocated) > 0 {
			a.d.store.ClaimsChanged(a.d.store.ResourceClaims().Abandon(pod.UID))
		}
	}
}

// withdrawNominations clears the nominations of a unit that fits nowhere, not even at the expense of others, unless its victims of before a restart are
// on their way out.
func (a *attempt) withdrawNominations() {
	for _, pod := range a.unit.Members() {
		if pod.Nominated != "" && !pod.NeverPreempts && !a.decider().Preempts.AwaitsVictims(pod) {
			a.d.binder.Conditions().WithdrawNomination(pod, a.now)
		}
	}
}

// explain returns why the unit fits nowhere; fresh says that it was worked out just now.
func (a *attempt) explain() (why *explanation, fresh bool) {
	book := &a.d.blocked.explanations
	if why = book.recent(a.unit.Shape, a.now); why != nil {
		return why, false
	}
	switch {
	case !book.spend(a.unit.Members()[0].Namespace, a.now):
		why = unexplained(a.now)
	case a.unit.Gang == nil:
		a.looks()
		why = newExplanation(a.decider().Explain(a.unit.Class), a.now)
	default:
		a.looks()
		mark := a.in.snapshot.Mark()
		a.d.gate.Reservations.Own(a.unit).Open(a.in.snapshot)
		why = newGangExplanation(a.decider().ExplainUnit(a.wanted()), a.now)
		a.in.snapshot.Rollback(mark)
	}
	book.set(a.unit.Shape, why)
	return why, true
}

// looks takes note that the attempt asks all nodes.
func (a *attempt) looks() { a.d.looked += max(a.in.snapshot.Slots(), 1) }

// lacking is for how many more members there has to be room before the gang may get the places that it needs.
func (a *attempt) lacking() int {
	a.looks()
	mark := a.in.snapshot.Mark()
	a.d.gate.Reservations.Own(a.unit).Open(a.in.snapshot)
	n := leastLacking(a.decider(), a.wanted())
	a.in.snapshot.Rollback(mark)
	return n
}

// commit proposes a Plan for the unit. Members that are not in it wait on. It answers false when the Plan was rejected.
func (a *attempt) commit(plan *cluster.Plan, why facts.Condition) bool {
	d, u := a.d, a.unit
	plan.Decided = a.now.UnixNano()
	verdict := d.propose(plan, why)
	if verdict.Reason == cluster.RejectQuota && u.Gang != nil && len(plan.Victims) == 0 && verdict.Placement >= u.Need() {
		u.NotBefore = verdict.Revision                        // for those that are left over
		plan.Placements = plan.Placements[:verdict.Placement] // what the first members are given has room
		verdict = d.propose(plan, why)
	}
	if verdict.Reason == cluster.RejectQuota {
		d.observer.Rejected(verdict.Reason, a.now)
		u.NotBefore = verdict.Revision
		a.short = d.gate.RefusedGrant(verdict.Short)
		a.blockByQuota()
		return false
	}
	if !verdict.Committed {
		d.rejected(u, verdict, a.now)
		return false
	}
	if len(plan.Victims) > 0 {
		d.obliged.add(plan, !a.quotaAdmits)
	}
	if a.flushed {
		d.observer.MissedWakeup(u.Members()[0], a.now)
	}
	if gang := u.Gang; gang == nil {
		d.queue.Done(u)
	} else {
		placed := make([]facts.UID, len(plan.Placements))
		for i := range plan.Placements {
			placed[i] = plan.Placements[i].Pod
		}
		d.queue.Done(u, placed...)
		d.gangs.timers.forget(gang.UnitName)
	}
	d.gangs.refresh(a.now)
	for i := range plan.Placements {
		switch pod := d.store.Pod(plan.Placements[i].Pod); {
		case pod.Placeholder() && pod.Obliged():
			a.sayEvicts(pod)
		case pod.Placeholder(): // nobody's latency
		case a.preempts:
			d.observer.Preempting(pod, a.victims, a.now)
		case pod.Obliged():
			d.observer.Preempting(pod, pod.Victims(), a.now)
		default:
			d.observer.Placed(pod, a.now)
		}
	}
	d.waiting.report(a.now)
	return true
}
