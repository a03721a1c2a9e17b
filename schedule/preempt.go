package schedule

import (
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/victims"
	"hilbert.dev/hilbert/schedule/queue"
)

// preempt finds victims on one node for the pod or, if the pod may not preempt, for the next pod of its shape that may.
func (a *attempt) preempt() bool {
	next := a.nextPreemptor()
	if next == nil {
		return false
	}
	pod := a.d.store.Pod(next.Pod)
	decider := a.in.placers.For(pod)
	found, ok := decider.Preempts.Resume(pod)
	if !ok {
		found, ok = decider.Preempts.Preempt(pod)
	}
	if !ok {
		a.d.blocked.noVictims(keyOf(a.unit), pod.Priority, &victims.Eviction{})
		return false
	}
	if !a.d.store.Placeholders().MayEvict(pod, a.in.snapshot.Node(found.Choice.Slot).Name, found.Victims) {
		a.d.store.Placeholders().EndPermission(pod.UID)
		return a.preempt() // the next of its shape that may
	}
	its := attempt{d: a.d, unit: next, in: a.in, now: a.now, quotaAdmits: true, preempts: true, victims: found.Victims}
	if next != a.unit { // this unit is tried again when the other has its place
		a.d.queue.Take(next)
		a.d.queue.Return(a.unit)
	}
	plan := a.in.plan(pod, found.Choice)
	for _, victim := range found.Victims {
		plan.Victims = append(plan.Victims, victim.UID)
	}
	why, _ := its.explain()
	its.commit(plan, why.condition)
	return true
}

// nextPreemptor returns the most important waiting unit of the shape that may preempt now: as a rule the one whose turn it is. nil: none.
func (a *attempt) nextPreemptor() *queue.Unit {
	if a.mayPreempt(a.unit) {
		return a.unit
	}
	return a.firstAlike(a.mayPreempt)
}

// mayPreempt reports whether a pod may evict others now. One whose victims of before a restart are on their way out waits for them, unless
// they make room enough.
func (a *attempt) mayPreempt(u *queue.Unit) bool {
	pod := a.d.store.Pod(u.Pod)
	if pod.NeverPreempts {
		return false
	}
	decider := a.in.placers.For(pod)
	if pod.Nominated == "" || !decider.Preempts.AwaitsVictims(pod) {
		return true
	}
	if _, ok := decider.Preempts.Resume(pod); ok {
		return true
	}
	a.d.blocked.wantsVictims(keyOf(u), pod.Priority)
	return false
}

// sayEvicts says of a place whose Reservation may evict what it waits for.
func (a *attempt) sayEvicts(placeholder *cluster.Pod) {
	a.d.observer.Preempting(placeholder, placeholder.Victims(), a.now)
	a.d.notices.sayWhy(placeholder, facts.Condition{
		Reason:  spec.ReasonUnschedulable,
		Message: fmt.Sprintf("pods of lower priority have to leave node %s first: %d", placeholder.Node(), len(placeholder.Victims())),
	}, a.now)
}
