package schedule

import (
	"fmt"
	"iter"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/queue"
	"hilbert.dev/hilbert/schedule/reserve"
)

// waitingPods has each pod that wants a place in exactly one of queue, binder and held. It moves pods between these as the ledger's effects and the binder's
// transitions say, and tells the observer; Verify checks it.
//
// Two maps keep what neither queue nor binder can: pods that must not be decided on, and pods of which the API server says that they are gone while the watch
// has not said so yet. Both lose a pod with the next effect that the ledger has for it.
//
// Example: a pod arrives gated and is held. Its gate is taken off, and it is queued. A Plan places it, so the binder has it. Its Binding is refused, and it is queued
// again with a backoff. The API server has its next Binding: nobody has it any more.
type waitingPods struct {
	store    *cluster.Store
	queue    *queue.Queue
	binder   *bind.Binder
	gate     *admit.Gate
	blocked  *blocked
	gangs    *gangs
	obliged  *obliged
	notices  *notices
	owners   *reserve.Owners
	turns    *reserve.Turns
	observer Observer

	retries  retries
	held     map[facts.UID]changes.Revision // pods that must not be decided on, and the revision to have been seen before they are
	vanished map[facts.UID]struct{}         // the API server says they are gone or bound elsewhere; the watch has not said so yet
}

// apply does what an effect of the ledger asks for.
func (w *waitingPods) apply(e cluster.Effect, now time.Time) {
	pod := e.Pod
	seen, held := w.held[pod.UID]
	delete(w.held, pod.UID)
	delete(w.vanished, pod.UID)
	switch e.Kind {
	case cluster.Waits:
		if held {
			w.binder.Conditions().Withdraw(pod)
		}
		w.enqueue(pod, seen, now)
	case cluster.VolumesMoved:
		w.binder.VolumesMoved(pod.UID)
		w.report(now)
	case cluster.Held:
		w.hold(pod, max(seen, w.queue.Remove(pod.UID)), now)
	case cluster.Settled:
		w.obliged.forget(pod.UID)
		w.queue.Remove(pod.UID)
		w.notices.events.Forget(pod.UID)
		if e.Gone || pod.Phase != cluster.Assumed {
			w.retries.forget(pod.UID)
		}
		w.binder.Settle(pod, e.Gone)
		w.report(now)
	}
}

// hold keeps a pod that waits, but must not be placed, and says why. It is not queued before a change of it has been seen.
func (w *waitingPods) hold(pod *cluster.Pod, seen changes.Revision, now time.Time) {
	if !pod.Ours || pod.Phase != cluster.Pending || pod.Deleting {
		return // it wants no place
	}
	w.held[pod.UID] = seen
	if condition, refused := admit.Refuse(pod); refused && !pod.Gated {
		w.notices.sayWhy(pod, condition, now)
	}
}

// enqueue puts a pod into the queue, to be decided on a snapshot that has seen a revision. If its class is known to fit nowhere, its
// condition says so at once.
func (w *waitingPods) enqueue(pod *cluster.Pod, seen changes.Revision, now time.Time) {
	if w.binder.Assumes(pod.UID) {
		return
	}
	w.arrived(pod)
	u, parked := w.queue.Add(pod)
	u.NotBefore = max(u.NotBefore, seen)
	w.gangs.timers.waits(u, false, now)
	if !parked {
		if why := w.blocked.explanations.recent(u.Shape, now); why != nil {
			why.addNewcomer(pod.UID)
		}
		return
	}
	if w.mayTry(u, now) {
		w.queue.Wake(u.ShapeQueue())
	} else if why := w.blocked.explanations.of(u.Shape); why != nil {
		w.notices.sayWhy(pod, ofPods(w.blocked.whyParked(u, why)), now)
	}
}

// arrived lets Reservations know of a pod that comes to wait: it may own one, or be one's place.
func (w *waitingPods) arrived(pod *cluster.Pod) {
	w.owners.Arrived(pod)
	w.turns.Arrived(pod)
}

// mayTry reports whether a unit that came to others which sleep has to be tried nevertheless.
func (w *waitingPods) mayTry(u *queue.Unit, now time.Time) bool {
	if w.gate.Reservations.Backfills(u, now) {
		return true
	}
	for _, pod := range u.Members() {
		if pod.NeverPreempts {
			return false
		}
	}
	return w.blocked.mayHaveVictims(keyOf(u), u.Priority)
}

// joinParked parks a unit with those like it that were found to fit nowhere after this one was taken out of the queue: they cost one decision, however many they are.
func (w *waitingPods) joinParked(u *queue.Unit, now time.Time) bool {
	if !w.queue.IsParked(u) || w.mayTry(u, now) {
		return false
	}
	w.queue.Return(u)
	if why := w.blocked.explanations.of(u.Shape); why != nil {
		w.notices.sayWhyUnit(u, w.blocked.whyParked(u, why), now)
	}
	return true
}

// report handles the outcomes that the binder has.
func (w *waitingPods) report(now time.Time) {
	for _, r := range w.binder.Transitions() {
		w.transition(&r, now)
	}
	w.gangs.refresh(now)
}

func (w *waitingPods) transition(r *bind.Transition, now time.Time) {
	if r.Event == bind.VictimDeleted { // the pod goes on waiting for the others
		w.notices.sayEvicted(r)
		return
	}
	w.obliged.forget(r.Pod)
	pod := w.store.Pod(r.Pod)
	if pod == nil {
		return
	}
	switch r.Event {
	case bind.Bound:
		w.retries.forget(r.Pod)
		w.observer.Bound(pod, now)
		w.notices.events.Placed(pod)
	case bind.Released:
		if !w.comesBack(pod, r, now) {
			return
		}
		w.arrived(pod)
		w.queue.AddDelayed(pod, w.store.Revision(), w.retries.next(r.Pod, now)) // a snapshot from before does not know why it lost its place
		if !r.Unsent {
			w.notices.sayWhy(pod, facts.Condition{Reason: spec.ReasonBindingFailed, Message: r.Message}, now)
		}
	case bind.VictimsGone:
		w.observer.Cleared(pod, now)
	case bind.Preempted:
		if w.comesBack(pod, r, now) {
			w.enqueue(pod, w.store.Revision(), now)
		}
	case bind.Vanished:
		w.retries.forget(r.Pod)
		w.vanished[r.Pod] = struct{}{}
	case bind.VictimDeleted:
	}
}

// comesBack takes note that a pod has lost its place. It reports whether the pod is to be queued; otherwise it is held.
func (w *waitingPods) comesBack(pod *cluster.Pod, r *bind.Transition, now time.Time) bool {
	w.observer.Released(pod, r.Message, now)
	w.notices.withdrawNomination(pod, r.Nominated, now)
	if !pod.Schedulable() {
		w.hold(pod, 0, now)
		return false
	}
	return true
}

// all yields the pods that are held.
func (w *waitingPods) all() iter.Seq[*cluster.Pod] {
	return func(yield func(*cluster.Pod) bool) {
		for uid := range w.held {
			if pod := w.store.Pod(uid); pod != nil && !yield(pod) {
				return
			}
		}
	}
}

// verify returns a pod that wants a place and is not where it belongs, as an error.
func (w *waitingPods) verify() error {
	var err error
	w.store.EachPod(func(pod *cluster.Pod) {
		_, held := w.held[pod.UID]
		_, vanished := w.vanished[pod.UID]
		waits, assumed := w.queue.Unit(pod.UID) != nil, w.binder.Assumes(pod.UID)
		switch {
		case assumed != (pod.Phase == cluster.Assumed):
			err = fmt.Errorf("pod %s is %s; binder has it: %v", pod.UID, pod.Phase, assumed)
		case waits && (held || assumed):
			err = fmt.Errorf("pod %s waits in the queue; held: %v, in the binder: %v", pod.UID, held, assumed)
		case waits && !pod.Schedulable():
			err = fmt.Errorf("pod %s waits in the queue but must not be placed", pod.UID)
		case pod.Schedulable() && !waits && !vanished:
			err = fmt.Errorf("pod %s wants a place and is lost: neither in the queue nor in the binder", pod.UID)
		}
	})
	return err
}
