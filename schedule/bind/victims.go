package bind

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// A placement with victims goes through five steps: its nomination is written; each victim gets its DisruptionTarget condition; each victim is
// deleted; the watch sees all of them gone; the placement is checked once more. Then the Binding follows as any other.
//
// The place of a Reservation that may evict goes the same way, without a nomination and without a Binding.

// needsNomination reports whether the row's nomination has to be written. It need not after a restart, if the nomination is there and all victims are
// on their way out. Otherwise it is written again: what the ledger knows of a nomination may be outdated, and no pod is deleted on that basis.
func needsNomination(r *row, pod *cluster.Pod) bool {
	if pod.Placeholder() { // the API server has no such pod
		return false
	}
	stays := func(victim *cluster.Pod) bool { return !victim.Deleting }
	return pod.Obliged() && (pod.Nominated != r.node || slices.ContainsFunc(pod.Victims(), stays))
}

// awaitVictims begins the evictions that a row with a written nomination waits for. Without victims left, the Binding follows.
func (b *Binder) awaitVictims(r *row) {
	if reason := b.store.Recheck(r.pod, b.check); reason != "" {
		b.released(r, "the node has changed: "+reason, true)
		return
	}
	pod := b.store.Pod(r.pod)
	r.stage = waiting
	if !pod.Obliged() {
		b.victimsGone(r)
		return
	}
	for _, victim := range pod.Victims() {
		b.proceed(b.evictions.await(r, victim.UID))
	}
}

// proceed goes on with placements of which a victim has left.
func (b *Binder) proceed(freed []*row) {
	for _, r := range freed {
		pod := b.store.Pod(r.pod)
		// A LIST brings many pods at once, so Settle may not have been called for the waiting pod itself yet.
		if !r.decided && r.stage == waiting && pod != nil && pod.Phase == cluster.Assumed && !pod.Obliged() { // its group may still wait
			b.awaitVictims(r)
		}
	}
}

// victimsGone goes on with a row whose victims have left: its claims are bound, and then the pod. In a plan group each step waits for the last member to have
// done the one before.
func (b *Binder) victimsGone(r *row) {
	if !r.group.waits() {
		b.goOn(r)
		return
	}
	for _, member := range r.group.rows {
		if member.decided {
			continue
		}
		pod := b.store.Pod(member.pod)
		gone := pod == nil || pod.Phase != cluster.Assumed // a LIST brings many pods at once: Settle is still to be called for it
		if gone || member.stage != waiting || pod.Obliged() {
			return
		}
	}
	for _, member := range r.group.rows {
		if member.decided {
			continue
		}
		if reason := b.store.Recheck(member.pod, b.check); reason != "" {
			b.released(member, "the node has changed: "+reason, true)
			return
		}
	}
	left := r.group.undecided()
	r.group.cleared = !slices.ContainsFunc(left, b.claims.owes)
	r.group.bindsVolumes = true
	for _, member := range left {
		if r.group.cleared || b.claims.owes(member) {
			b.goOn(member)
		}
	}
}

// goOn queues the next write of a row whose victims have left: about its claims, or its Binding.
func (b *Binder) goOn(r *row) {
	if b.store.Pod(r.pod).Placeholder() { // no Binding follows: the status of its Reservation says the rest
		b.store.Placeholders().SettlePlace(r.pod)
		b.drop(r)
		b.record(Transition{Event: VictimsGone, Pod: r.pod})
		return
	}
	if r.kind == WriteNomination {
		b.record(Transition{Event: VictimsGone, Pod: r.pod})
	}
	r.kind, r.stage, r.attempts = WriteBinding, queued, 0
	if b.claims.owes(r) {
		r.kind = WriteVolume
	}
	b.placements.enqueue(r)
}

// breakGroup releases the places of all members after one has lost its own, so that they are decided again together.
func (b *Binder) breakGroup(m *planGroup) {
	if !m.waits() {
		return
	}
	m.broken = true
	for _, member := range m.rows {
		if !member.decided && member.stage != inFlight { // the answer of a write in flight sees that the group is broken
			b.released(member, lostMember, true)
		}
	}
}

// withdrawVictim releases the placement of a victim whose Binding is not written yet.
func (b *Binder) withdrawVictim(victim facts.UID) {
	r := b.placements.rows[victim]
	if r != nil && (r.stage == queued || r.stage == waiting || r.stage == pausing && (r.kind == WriteNomination || r.kind == WriteVolume)) {
		b.preempted(r)
	}
}

// ReleaseFromLostNodes releases the placements on nodes that no longer exist: those that wait for victims or to be nominated, and those whose Binding
// has not been sent. A Binding that was sent may have been done.
func (b *Binder) ReleaseFromLostNodes() {
	for _, r := range b.placements.onLostNodes() {
		if !r.decided { // releasing one can release another
			b.released(r, cluster.RejectNodeGone, true)
		}
	}
}

// Evict makes a bound member leave, through the Eviction API, though no placement waits for it: its gang holds places in part. It does nothing if the pod
// is on its way out, and gives up if the gang becomes whole.
func (b *Binder) Evict(victim facts.UID, why facts.Condition) {
	b.proceed(b.evictions.dissolve(victim, why))
}

// finishEviction applies the result of a write about a victim.
func (b *Binder) finishEviction(result *Result, now time.Time) {
	e, deleted := b.evictions.finish(result, now)
	if e == nil {
		return
	}
	if deleted && len(e.waiters) > 0 {
		b.record(Transition{Event: VictimDeleted, Pod: e.waiters[0].pod, Victim: e.named, Node: e.node})
	}
	if result.Outcome == Refused {
		why := b.evictions.refusal(e, result.Message)
		for _, r := range e.waiters {
			if !r.decided { // releasing one can release another
				b.released(r, why, false)
			}
		}
	}
	b.proceed(b.evictions.resume(e))
}
