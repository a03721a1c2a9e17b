package bind

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/heap"
)

// A placement with victims goes through five steps: its nomination is written; each victim gets its DisruptionTarget condition; each victim is
// deleted; the watch sees all of them gone; the placement is checked once more. Then the Binding follows as any other.
//
// A victim whose own placement is not written yet is not deleted: its placement is released. While a victim's Binding is in flight nothing is
// written about it until the outcome is certain.
//
// The place of a Reservation that may evict goes the same way, without a nomination and without a Binding.
//
// A pod that has to leave though no placement waits for it (a member of a gang that came to hold places in part) is not deleted but evicted: a disruption
// budget may hold it back, and then it is tried again.

const (
	// MaxEvictionsInFlight bounds the writes about victims under way.
	MaxEvictionsInFlight = 16

	reasonPreemption  = "PreemptionByScheduler" // upstream's
	messagePreemption = "preempting to accommodate a higher priority pod"
	messageReclaim    = "taking back what its queue has borrowed"
)

// eviction takes one victim from its DisruptionTarget condition to its deletion. Several placements may wait for one victim.
type eviction struct {
	victim   facts.UID
	waiters  []*row // placements that wait for the victim; their nominations are written
	kind     WriteKind
	stage    stage
	done     bool // deleted: the watch has to say so
	attempts int
	until    time.Time
	position int // in the heap of pausing ones
	// unconditional: the victim has to leave even if no placement waits for it, while its gang holds places in part.
	unconditional bool
	why           facts.Condition
	// named and node are the victim's, when it was last written about: it may be gone when the answer comes.
	named PodName
	node  string
}

type evictions struct {
	rows    map[facts.UID]*eviction
	queue   []*eviction
	flights map[uint64]*eviction
	pausing *heap.Heap[*eviction]
}

func newEvictions() evictions {
	return evictions{
		rows: make(map[facts.UID]*eviction), flights: make(map[uint64]*eviction),
		pausing: heap.New(
			func(a, b *eviction) bool {
				if c := a.until.Compare(b.until); c != 0 {
					return c < 0
				}
				return a.victim < b.victim
			},
			func(e *eviction, i int) { e.position = i }),
	}
}

func (v *evictions) nextWake() (time.Time, bool) {
	if v.pausing.Len() == 0 || len(v.flights) >= MaxEvictionsInFlight {
		return time.Time{}, false
	}
	return v.pausing.First().until, true
}

// needsNomination reports whether the row's nomination has to be written. It need not after a restart, if the nomination is there and all victims are
// on their way out. Otherwise it is written again: what the ledger knows of a nomination may be outdated, and no pod is deleted on that basis.
func (b *Binder) needsNomination(r *row) bool {
	pod := b.store.Pod(r.pod)
	if pod.Placeholder() { // the API server has no such pod
		return false
	}
	stays := func(victim *cluster.Pod) bool { return !victim.Deleting }
	return pod.Obliged() && (pod.Nominated != r.node || slices.ContainsFunc(pod.Victims(), stays))
}

func (b *Binder) finishNomination(r *row, result Result, now time.Time) {
	switch {
	case b.store.Pod(r.pod).Claimed():
		b.preempted(r)
	case r.group != nil && r.group.broken:
		b.released(r, lostMember, true)
	case result.Outcome == Written:
		b.awaitVictims(r)
	case result.Outcome == Gone:
		b.vanished(r)
	case result.Outcome == Refused:
		b.released(r, "nomination: "+result.Message, false)
	case result.Outcome == NotSent && r.attempts == 0:
		b.released(r, "not sent: "+result.Message, true)
	case b.store.Slot(r.node) == cluster.NoSlot:
		b.released(r, cluster.RejectNodeGone, true)
	default: // the write can be repeated
		r.attempts++
		b.pause(r, WriteNomination, now, backoff(r.attempts))
	}
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
		e := b.evictions.rows[victim.UID]
		if e == nil {
			e = b.newEviction(victim.UID, facts.Condition{Reason: reasonPreemption, Message: messagePreemption})
			if r.reclaims {
				e.why.Message = messageReclaim
			}
		}
		e.waiters = append(e.waiters, r)
		r.evictions = append(r.evictions, e)
		b.advance(e)
	}
}

// planGroup is the rows of one Plan with victims: placements that stand or fall together. No member is bound before the victims of all members have
// left, for if another member then lost its place, the gang would hold the places that it has for nothing.
//
// Example: a gang of two gets node a, where pod x has to leave, and node b, where y has to. x leaves first; the member on a waits on. When y has left
// too, both are bound. If instead node b is deleted, both places are released and the gang is decided again.
type planGroup struct {
	rows []*row
	unit *cluster.Unit // whose pods they are; nil: of several, or of none
	left int           // rows that are not decided
	// bindsVolumes: the victims of all members have left, and claims are being bound. cleared: the claims of all members are bound, too. broken: a member has
	// lost its place, so the others release theirs.
	bindsVolumes, cleared, broken bool
}

// waits reports whether some victims of the group may not have left yet, or some claims are not bound.
func (m *planGroup) waits() bool { return m != nil && !m.cleared && !m.broken }

// groupFor returns the plan group that the rows of a Plan are in; nil: each is on its own. A pod of a gang whose other members are not all ready to be bound, or are
// about to lose their places because one of them has, shares their fate: it is not bound before them, nor without them.
func (b *Binder) groupFor(plan *cluster.Plan) *planGroup {
	first := plan.Placements[0].Pod
	unit, replaces := b.store.Pod(first).Unit, b.rows[first] != nil
	if open := b.groups[unit]; open != nil && !replaces && !open.cleared && (len(plan.Victims) == 0 || !open.bindsVolumes) {
		return open
	}
	owes := slices.ContainsFunc(plan.Placements, func(p cluster.Placement) bool { return b.hasClaims(p.Pod) })
	if len(plan.Victims) == 0 && !owes || len(plan.Placements) < 2 {
		return nil
	}
	group := &planGroup{bindsVolumes: len(plan.Victims) == 0, unit: unit}
	if unit != nil {
		b.groups[unit] = group
	}
	return group
}

// leaveGroup takes note that a row is decided.
func (b *Binder) leaveGroup(m *planGroup) {
	if m == nil {
		return
	}
	if m.left--; m.left == 0 && b.groups[m.unit] == m {
		delete(b.groups, m.unit)
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
	left := slices.DeleteFunc(slices.Clone(r.group.rows), func(member *row) bool { return member.decided })
	r.group.cleared = !slices.ContainsFunc(left, b.owes)
	r.group.bindsVolumes = true
	for _, member := range left {
		if r.group.cleared || b.owes(member) {
			b.goOn(member)
		}
	}
}

// goOn queues the next write of a row whose victims have left.
func (b *Binder) goOn(r *row) {
	if b.store.Pod(r.pod).Placeholder() { // no Binding follows: the status of its Reservation says the rest
		b.store.SettlePlace(r.pod)
		b.drop(r)
		b.record(Transition{Event: VictimsGone, Pod: r.pod})
		return
	}
	if b.owes(r) {
		b.queueVolumes(r)
		return
	}
	b.queueBinding(r)
}

func (b *Binder) queueBinding(r *row) {
	if r.kind == WriteNomination {
		b.record(Transition{Event: VictimsGone, Pod: r.pod})
	}
	r.kind, r.stage, r.attempts = WriteBinding, queued, 0
	b.enqueue(r)
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

// lostMember is why a placement is released when another member of its group has lost its own.
const lostMember = "another member lost its place"

// withdrawVictim releases the placement of a victim whose Binding is not written yet.
func (b *Binder) withdrawVictim(victim facts.UID) {
	r := b.rows[victim]
	if r != nil && (r.stage == queued || r.stage == waiting || r.stage == pausing && (r.kind == WriteNomination || r.kind == WriteVolume)) {
		b.preempted(r)
	}
}

func (b *Binder) preempted(r *row) {
	b.release(r, Transition{Event: Preempted, Pod: r.pod, Message: "preempted by a pod of higher priority"})
}

// ReleaseFromLostNodes releases the placements on nodes that no longer exist: those that wait for victims or to be nominated, and those whose Binding
// has not been sent. A Binding that was sent may have been done.
func (b *Binder) ReleaseFromLostNodes() {
	var lost []*row
	for _, r := range b.rows {
		unsent := r.stage == waiting || r.stage == queued && r.attempts == 0 || r.stage != inFlight && (r.kind == WriteNomination || r.kind == WriteVolume)
		if unsent && b.store.Slot(r.node) == cluster.NoSlot {
			lost = append(lost, r)
		}
	}
	slices.SortFunc(lost, func(x, y *row) int {
		if x.pod < y.pod {
			return -1
		}
		return 1
	})
	for _, r := range lost {
		if !r.decided { // releasing one can release another
			b.released(r, cluster.RejectNodeGone, true)
		}
	}
}

// recheckEviction advances the eviction of a pod, if there is one, after something about the pod has changed.
func (b *Binder) recheckEviction(victim facts.UID) {
	if e := b.evictions.rows[victim]; e != nil {
		b.advance(e)
	}
}

// advance does the next step of an eviction.
func (b *Binder) advance(e *eviction) {
	victim := b.store.Pod(e.victim)
	switch {
	case victim == nil || !victim.Claimed() && (!e.unconditional || victim.Phase != cluster.Bound):
		b.victimLeft(e)
	case e.stage == inFlight: // the answer calls advance again
	case len(e.waiters) == 0 && !e.unconditional:
		b.forgetEviction(e)
	case e.done || victim.Deleting || b.rows[e.victim] != nil || b.unanswered[e.victim] > 0: // nothing to write, or not yet
		b.idleEviction(e)
	case e.stage == waiting:
		e.stage = queued
		b.evictions.queue = append(b.evictions.queue, e)
	}
}

func (b *Binder) newEviction(victim facts.UID, why facts.Condition) *eviction {
	e := &eviction{victim: victim, kind: WriteDisruption, stage: waiting, position: -1, why: why}
	b.evictions.rows[victim] = e
	return e
}

// Evict makes a bound member leave, through the Eviction API, though no placement waits for it: its gang holds places in part. It does nothing if the pod
// is on its way out, and gives up if the gang becomes whole.
func (b *Binder) Evict(victim facts.UID, why facts.Condition) {
	e := b.evictions.rows[victim]
	if e == nil {
		e = b.newEviction(victim, why)
	}
	e.unconditional = true
	b.advance(e)
}

// dissolves reports whether only the victim's gang is why it leaves.
func (e *eviction) dissolves() bool { return e.unconditional && len(e.waiters) == 0 }

// idleEviction stops writing about a victim until the watch sees a change of it.
func (b *Binder) idleEviction(e *eviction) {
	if e.stage == pausing {
		b.evictions.pausing.Remove(e.position)
	}
	e.stage = waiting
}

// victimLeft continues with the placements that waited for a victim, in the order in which they are served: where there is no room for all of them any
// more, the most important gets it.
func (b *Binder) victimLeft(e *eviction) {
	waiters := e.waiters
	e.waiters = nil
	slices.SortStableFunc(waiters, func(x, y *row) int {
		switch {
		case servedBefore(x, y):
			return -1
		case servedBefore(y, x):
			return 1
		}
		return 0
	})
	if e.stage != inFlight {
		b.forgetEviction(e)
	}
	for _, r := range waiters {
		pod := b.store.Pod(r.pod)
		// A LIST brings many pods at once, so Settle may not have been called for the waiting pod itself yet.
		if !r.decided && r.stage == waiting && pod != nil && pod.Phase == cluster.Assumed && !pod.Obliged() { // its group may still wait
			b.awaitVictims(r)
		}
	}
}

// forgetEviction ends an eviction. A row that waited for it may name it still when the pod is a victim again, of another Plan: that eviction goes on.
func (b *Binder) forgetEviction(e *eviction) {
	if b.evictions.rows[e.victim] == e {
		delete(b.evictions.rows, e.victim)
	}
	b.idleEviction(e)
}

// leaveEvictions takes a row off the evictions that it waits for, and ends those without other waiters. Deleted victims stay deleted.
func (b *Binder) leaveEvictions(r *row) {
	for _, e := range r.evictions {
		e.waiters = slices.DeleteFunc(slices.Clone(e.waiters), func(other *row) bool { return other == r })
		if len(e.waiters) == 0 && e.stage != inFlight && !e.unconditional {
			b.forgetEviction(e)
		}
	}
	r.evictions = nil
}

// startEvictions adds the writes about victims to those that are ready.
func (b *Binder) startEvictions(now time.Time) {
	v := &b.evictions
	for len(v.flights) < MaxEvictionsInFlight && v.pausing.Len() > 0 && !v.pausing.First().until.After(now) {
		b.startEviction(v.pausing.Pop())
	}
	for len(v.flights) < MaxEvictionsInFlight && len(v.queue) > 0 {
		e := v.queue[0]
		v.queue[0] = nil
		v.queue = v.queue[1:]
		if e.stage == queued {
			b.startEviction(e)
		}
	}
}

func (b *Binder) startEviction(e *eviction) {
	victim := b.store.Pod(e.victim)
	if e.dissolves() && (victim.Unit == nil || !victim.Unit.Partial()) { // the gang has got its other members
		e.stage = waiting
		b.forgetEviction(e)
		return
	}
	b.next++
	b.evictions.flights[b.next] = e
	e.stage = inFlight
	e.named, e.node = PodName{victim.Namespace, victim.Name, victim.UID}, victim.Node()
	write := Write{ID: WriteID{OwnerEviction, b.next}, Kind: e.kind, Pod: e.victim, Namespace: victim.Namespace, Name: victim.Name}
	switch {
	case e.kind == WriteDisruption:
		write.Condition = e.why
	case e.dissolves():
		write.Kind = EvictPod
	}
	if write.Kind != WriteDisruption {
		b.store.Units().Evicting(victim)
	}
	b.ready = append(b.ready, write)
}

// finishEviction applies the result of a write about a victim.
func (b *Binder) finishEviction(result Result, now time.Time) {
	e := b.evictions.flights[result.ID.Number]
	if e == nil {
		return
	}
	delete(b.evictions.flights, result.ID.Number)
	e.stage = waiting
	if victim := b.store.Pod(e.victim); victim != nil && e.kind == DeletePod && result.Outcome != Written {
		b.store.Units().NotEvicted(victim, result.Outcome == Unknown)
	}
	switch result.Outcome {
	case Written:
		e.attempts = 0
		e.done = e.kind == DeletePod
		if e.done && len(e.waiters) > 0 {
			b.record(Transition{Event: VictimDeleted, Pod: e.waiters[0].pod, Victim: e.named, Node: e.node})
		}
		e.kind = DeletePod
	case Gone:
		e.done = true
	case Refused:
		e.unconditional = false
		name := string(e.victim)
		if victim := b.store.Pod(e.victim); victim != nil {
			name = victim.Namespace + "/" + victim.Name
		}
		for _, r := range e.waiters {
			if !r.decided { // releasing one can release another
				b.released(r, "evict "+name+": "+result.Message, false)
			}
		}
	default: // Unknown, NotSent, Conflict, Withheld: both writes can be repeated
		e.attempts++
		if len(e.waiters) > 0 || e.unconditional {
			e.stage, e.until = pausing, now.Add(backoff(e.attempts))
			b.evictions.pausing.Push(e)
		}
	}
	if b.evictions.rows[e.victim] == e {
		b.advance(e)
	}
}
