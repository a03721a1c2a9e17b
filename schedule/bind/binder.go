package bind

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/deadline"
)

// Event is what became of a placement.
type Event uint8

const (
	// Bound: the API server has the Binding.
	Bound Event = iota + 1
	// Released: the Binding failed for good; the pod is Pending again and has to be decided again.
	Released
	// Vanished: the pod is gone, or another scheduler bound it; the watch brings the rest.
	Vanished
	// VictimsGone: all victims of the placement have left; the Binding follows.
	VictimsGone
	// Preempted: the placement was released before it was written, for a pod of higher priority; the pod is Pending again.
	Preempted
	// VictimDeleted: the API server has deleted Victim, which Pod is to take the place of. The placement waits until it is gone.
	VictimDeleted
)

// Transition tells the caller what became of one placement.
type Transition struct {
	Event   Event
	Pod     facts.UID
	Message string // Released: why
	Unsent  bool   // Released: the API server has not been asked, so there is nothing to tell the pod's owner
	// Nominated: a nomination of the pod for the node was written, or may have been.
	Nominated bool
	// Of VictimDeleted: the pod that has to leave, and its node.
	Victim PodName
	Node   string
}

// Binder is the committer: the only caller of Store.Commit, Confirm and Release, so that all places are given and taken back in one order.
//
// It is a state machine over rows. Propose adds one row per placement, Ready turns rows into writes, Finish applies the answers, and
// Transitions returns the outcomes of the placements. Settle and ReleaseFromLostNodes apply what the watch has seen.
type Binder struct {
	store *cluster.Store
	check cluster.Check
	cfg   spec.Binding

	out         outbox
	placements  placements
	groups      planGroups
	claims      claims
	evictions   evictions
	giveBacks   giveBacks
	conditions  Conditions
	transitions []Transition
	handedOut   []Transition // what the latest Transitions returned
}

// New returns a Binder over the ledger. check is the filter table's commit check.
func New(store *cluster.Store, check cluster.Check, cfg spec.Binding, conds spec.Conditions) *Binder {
	b := &Binder{store: store, check: check, cfg: cfg, groups: make(planGroups), claims: claims{store}}
	b.placements = newPlacements(store, &b.out)
	b.evictions = newEvictions(store, &b.placements, &b.out)
	b.giveBacks = giveBacks{store: store, placements: &b.placements, out: &b.out, flights: make(map[uint64]giveBack)}
	b.conditions = newConditions(store, &b.out, conds)
	return b
}

// Conditions are the conditions of pods and units that are to be written.
func (b *Binder) Conditions() *Conditions { return &b.conditions }

// Propose commits a Plan and queues its Bindings, or rejects it. If the Plan has victims, it queues nominations instead; why is the condition
// that they write.
func (b *Binder) Propose(plan *cluster.Plan, why facts.Condition) cluster.Verdict {
	verdict := b.store.Commit(plan, b.check)
	b.replaced(plan, verdict.Committed)
	if !verdict.Committed {
		return verdict
	}
	if first := b.store.Pod(plan.Placements[0].Pod); first.Placeholder() && !first.Obliged() { // a Plan of its own; nothing has to be written for it to hold
		if old := b.placements.rows[first.UID]; old != nil {
			b.drop(old)
		}
		return verdict
	}
	first := plan.Placements[0].Pod
	group := b.groups.of(plan, b.store.Pod(first).Unit, b.placements.rows[first] != nil, b.claims.ofAny)
	for i := range plan.Placements {
		p := &plan.Placements[i]
		r := &row{group: group, reclaims: plan.Reclaims, pod: p.Pod, node: p.Node, grant: p.Grant, kind: WriteBinding, why: why, position: -1}
		switch {
		case b.store.Pod(p.Pod).Obliged():
			r.kind = WriteNomination
		case len(plan.Victims) == 0 && b.claims.owes(r) && (group == nil || group.bindsVolumes):
			r.kind = WriteVolume
		}
		group.add(r)
		if old := b.placements.rows[p.Pod]; old != nil {
			b.drop(old) // the Plan replaces it
		}
		b.placements.add(r)
	}
	for _, uid := range plan.Victims {
		b.withdrawVictim(uid)
	}
	return verdict
}

// Transitions returns what has become of placements since the last call. The slice is valid until the next call.
func (b *Binder) Transitions() []Transition {
	b.transitions, b.handedOut = b.handedOut[:0], b.transitions
	return b.handedOut
}

func (b *Binder) record(t Transition) { b.transitions = append(b.transitions, t) }

// Reconfigure goes on with other settings.
func (b *Binder) Reconfigure(cfg spec.Binding, conds spec.Conditions) {
	b.cfg = cfg
	b.conditions.reconfigure(conds)
}

// Full reports whether MaxAhead placements wait for their writes: the caller has to stop deciding for a while.
func (b *Binder) Full() bool { return b.placements.queue.Len() >= b.cfg.MaxAhead }

// Len is the number of placements whose Binding is not certain yet.
func (b *Binder) Len() int { return len(b.placements.rows) }

// InFlight is the number of Bindings and reads that the shell has.
func (b *Binder) InFlight() int { return len(b.placements.flights) }

// Settle applies what the watch has seen of a pod: it is bound, deleted or finished. The first time that a pod with a placement is seen on its
// node, the Transition is Bound.
func (b *Binder) Settle(pod *cluster.Pod, gone bool) {
	b.conditions.forget(subject{pod: pod.UID})
	r := b.placements.rows[pod.UID]
	switch {
	case r == nil:
	case pod.Phase != cluster.Assumed || gone:
		b.drop(r)
		if !gone && pod.Phase == cluster.Bound && pod.Node() == r.node {
			b.record(Transition{Event: Bound, Pod: pod.UID})
		}
	case pod.Deleting && (r.hasVictims() || r.bindsVolumes()): // its victims need not leave any more, nor its claims be bound
		b.drop(r)
		b.store.Release(pod.UID)
	}
	if r != nil && r.decided {
		b.breakGroup(r.group)
	}
	b.proceed(b.evictions.recheck(pod.UID))
}

// drop removes a row: from the table, its group, and what it waits for.
func (b *Binder) drop(r *row) {
	b.placements.take(r)
	b.groups.leave(r.group)
	b.evictions.leave(r)
}

// Ready returns the writes to start now. The slice is valid until the next call.
func (b *Binder) Ready(now time.Time) []Write {
	b.out.writes = b.out.writes[:0]
	for b.InFlight() < b.cfg.MaxInFlight {
		r := b.placements.nextPaused(now)
		if r == nil {
			break
		}
		switch {
		case r.awaitsVolumes:
			r.stage = waiting
			b.released(r, "binding volumes: the claims were not bound within "+b.cfg.VolumeTimeout.D().String(), false)
		case r.kind == WriteNomination && b.conditions.withdraws(r.pod):
			b.placements.pause(r, WriteNomination, now, retryBase)
		case r.kind == WriteVolume && r.claim == nil && r.obligation.Volume == "": // the claim may have been told, or have another version. A volume was chosen at its version
			r.stage = queued
			b.startClaims(r, now)
		default:
			b.placements.start(r)
		}
	}
	for b.InFlight() < b.cfg.MaxInFlight {
		r := b.placements.nextQueued()
		if r == nil {
			break
		}
		switch {
		case r.decided:
		case r.group.isBroken(): // it came while other members were leaving
			b.released(r, lostMember, true)
		case r.kind == WriteNomination && !needsNomination(r, b.store.Pod(r.pod)), r.kind == WriteBinding && r.group.waits():
			b.awaitVictims(r)
		case r.kind == WriteNomination && b.conditions.withdraws(r.pod): // it must not overtake the withdrawal of an earlier one
			b.placements.pause(r, WriteNomination, now, retryBase)
		case r.kind == WriteVolume:
			b.startClaims(r, now)
		default:
			b.placements.start(r)
		}
	}
	b.evictions.ready(now)
	b.giveBacks.ready(now)
	b.conditions.ready(now)
	return b.out.writes
}

// startClaims starts the next write about the row's claims, or waits for them if there is none.
func (b *Binder) startClaims(r *row, now time.Time) {
	slot := b.store.Slot(r.node)
	if slot == cluster.NoSlot {
		b.released(r, cluster.RejectNodeGone, true)
		return
	}
	switch _, failed := b.claims.volumes(r, slot); {
	case failed != "":
		b.released(r, failed, false)
	case b.claims.next(r, now):
		b.placements.start(r)
	default:
		r.awaitsVolumes = true
		b.placements.pause(r, WriteVolume, now, b.cfg.VolumeTimeout.D())
		b.checkClaims(r)
	}
}

// VolumesMoved takes note that something changed about the volumes of a pod.
func (b *Binder) VolumesMoved(uid facts.UID) {
	if r := b.placements.rows[uid]; r != nil && r.awaitsVolumes {
		b.checkClaims(r)
	}
}

// checkClaims goes on with a row that waits for its claims, once they are bound or there is more to write, and releases one whose claims will not be bound.
func (b *Binder) checkClaims(r *row) {
	switch state, why := b.claims.state(r); state {
	case claimsPending:
	case claimsFailed:
		b.released(r, why, false)
	case claimsOwed:
		b.placements.endPause(r)
		r.awaitsVolumes, r.stage, r.attempts = false, queued, 0
		b.placements.enqueue(r)
	case claimsBound:
		b.placements.endPause(r)
		r.awaitsVolumes, r.volumesReady, r.stage = false, true, waiting
		b.victimsGone(r)
	}
}

// NextWake is when Ready may have more writes even if nothing happens until then.
func (b *Binder) NextWake(now time.Time) (time.Time, bool) {
	var next deadline.Earliest
	next.Add(b.conditions.nextWake(now))
	next.Add(b.evictions.nextWake())
	next.Add(b.giveBacks.nextWake())
	if paused := b.placements.pausing; paused.Len() > 0 && b.InFlight() < b.cfg.MaxInFlight {
		next.Add(paused.First().until, true)
	}
	return next.Time()
}

// Finish applies the result of a Write. If the outcome of a placement is certain now, it is among the Transitions.
func (b *Binder) Finish(result Result, now time.Time) {
	switch result.ID.Owner {
	case OwnerPlacement:
		b.finishPlacement(&result, now)
	case OwnerEviction:
		b.finishEviction(&result, now)
	case OwnerCondition:
		b.conditions.finish(&result, now)
	case OwnerClaims:
		b.giveBacks.finish(&result, now)
	case OwnerRelief, OwnerEvents, OwnerPodEvents, OwnerReservations: // not ours
	}
}

func (b *Binder) finishPlacement(result *Result, now time.Time) {
	r := b.placements.land(result.ID.Number)
	switch {
	case r == nil:
	case r.decided:
		if b.placements.unanswered[r.pod] == 0 {
			b.proceed(b.evictions.recheck(r.pod))
		}
	case r.kind == ReadPod:
		b.follow(r, r.afterRead(result), now)
	case r.kind == WriteBinding:
		b.follow(r, r.afterBinding(result, b.cfg.MaxAttempts), now)
	default:
		b.finishStep(r, result, now)
	}
}

// finishStep applies the answer to a write that comes before the Binding: until that is sent, another placement may have claimed the pod's, or another member
// of its group may have lost its own.
func (b *Binder) finishStep(r *row, result *Result, now time.Time) {
	var next nextStep
	if r.kind == WriteVolume {
		next = b.claims.answered(r, result)
	} else {
		next = r.afterNomination(result, b.store.Slot(r.node) == cluster.NoSlot)
	}
	switch {
	case b.store.Pod(r.pod).Claimed():
		b.preempted(r)
	case r.group.isBroken():
		b.released(r, lostMember, true)
	default:
		b.follow(r, next, now)
	}
}

// follow does what follows from an answer.
func (b *Binder) follow(r *row, next nextStep, now time.Time) {
	switch next.do {
	case isBound:
		b.bound(r)
	case isVanished: // the pod is not decided again until the watch says what became of it
		b.release(r, Transition{Event: Vanished, Pod: r.pod})
	case isReleased:
		b.released(r, next.message, next.unsent)
	case pauses:
		b.placements.pause(r, next.kind, now, next.pause)
	case queues:
		b.placements.enqueue(r)
	case nominates:
		b.awaitVictims(r)
	}
}

func (b *Binder) bound(r *row) {
	b.drop(r)
	b.store.Confirm(r.pod)
	b.record(Transition{Event: Bound, Pod: r.pod})
	b.proceed(b.evictions.recheck(r.pod))
}

func (b *Binder) released(r *row, message string, unsent bool) {
	b.release(r, Transition{Event: Released, Pod: r.pod, Message: message, Unsent: unsent})
}

func (b *Binder) preempted(r *row) {
	b.release(r, Transition{Event: Preempted, Pod: r.pod, Message: "preempted by a pod of higher priority"})
}

// release takes a placement back, then continues with the placements that waited for this pod to leave.
func (b *Binder) release(r *row, t Transition) {
	b.drop(r)
	b.store.Release(r.pod)
	t.Nominated = r.nominated
	b.record(t)
	b.proceed(b.evictions.recheck(r.pod))
	b.breakGroup(r.group)
}

// Assumes reports whether the pod has a placement here whose Binding is not certain yet.
func (b *Binder) Assumes(uid facts.UID) bool { return b.placements.rows[uid] != nil }
