package bind

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

// A placement with victims works off its obligations in order: the nomination is written; each victim gets its DisruptionTarget condition
// and is deleted; the watch has seen all of them gone; the placement is judged once more. Then the Binding follows as any other.
//
// A victim whose own placement is not written yet is not deleted: its placement is given up. One whose Binding is under way is let be
// until the outcome is certain.

const (
	// MaxEvictionsInFlight bounds the writes about victims under way.
	MaxEvictionsInFlight = 16

	reasonPreemption  = "PreemptionByScheduler" // upstream's
	messagePreemption = "preempting to accommodate a higher priority pod"
	messageReclaim    = "taking back what its queue has borrowed"
)

// eviction is the way of one victim.
type eviction struct {
	victim   cluster.UID
	waiters  []*row // their nominations are written
	kind     WriteKind
	stage    stage
	done     bool // deleted: the watch has to say so
	attempts int
	until    time.Time
	position int // in the heap of pausing ones
	// outright: it has to leave though nobody waits for it.
	outright bool
	why      cluster.Condition
}

type evictions struct {
	rows    map[cluster.UID]*eviction
	queue   []*eviction
	flights map[WriteID]*eviction
	pausing *heap.Heap[*eviction]
}

func newEvictions() evictions {
	return evictions{
		rows: make(map[cluster.UID]*eviction), flights: make(map[WriteID]*eviction),
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

// unnominated reports whether the row's nomination has to be written: it has victims, and is not just resumed after a restart. What the
// ledger knows of a nomination may be outdated, so that it is no reason to delete anybody.
func (b *Binder) unnominated(r *row) bool {
	pod := b.store.Pod(r.pod)
	stays := func(victim *cluster.Pod) bool { return !victim.Deleting }
	return pod.Obliged() && (pod.Nominated != r.node || slices.ContainsFunc(pod.Victims(), stays))
}

func (b *Binder) finishNomination(r *row, result Result, now time.Time) {
	switch {
	case b.store.Pod(r.pod).Claimed():
		b.preempted(r)
	case r.mates != nil && r.mates.broken:
		b.released(r, lostMate, true)
	case result.Outcome == Written:
		b.evict(r)
	case result.Outcome == Gone:
		b.vanished(r)
	case result.Outcome == Refused:
		b.released(r, "nomination: "+result.Message, false)
	case result.Outcome == NotSent && r.attempts == 0:
		b.released(r, "not sent: "+result.Message, true)
	default: // writing it again does no harm
		r.attempts++
		b.pause(r, WriteNomination, now, backoff(r.attempts))
	}
}

// evict goes on with a row whose nomination is written: as soon as its victims have left it may be bound.
func (b *Binder) evict(r *row) {
	if reason := b.store.Recheck(r.pod, b.check); reason != "" {
		b.released(r, "the node has changed: "+reason, true)
		return
	}
	pod := b.store.Pod(r.pod)
	r.stage = waiting
	if !pod.Obliged() {
		b.clear(r)
		return
	}
	for _, victim := range pod.Victims() {
		e := b.evictions.rows[victim.UID]
		if e == nil {
			e = b.newEviction(victim.UID, cluster.Condition{Reason: reasonPreemption, Message: messagePreemption})
			if r.reclaims {
				e.why.Message = messageReclaim
			}
		}
		e.waiters = append(e.waiters, r)
		r.evictions = append(r.evictions, e)
		b.advance(e)
	}
}

// mates are the rows of one Plan with victims. None is bound before the victims of all have left: a gang that has only some of its places
// would hold them in vain, should the others be lost.
type mates struct {
	rows []*row
	// cleared: the victims of all have left. broken: one has lost its place, so that the others give theirs up.
	cleared, broken bool
}

// wait reports whether some victims may not have left yet.
func (m *mates) wait() bool { return m != nil && !m.cleared && !m.broken }

// clear goes on with a row whose victims have left: with all its mates, when it is the last.
func (b *Binder) clear(r *row) {
	if !r.mates.wait() {
		b.cleared(r)
		return
	}
	for _, mate := range r.mates.rows {
		if !mate.settled && (mate.stage != waiting || b.store.Pod(mate.pod).Obliged()) {
			return
		}
	}
	for _, mate := range r.mates.rows {
		if mate.settled {
			continue
		}
		if reason := b.store.Recheck(mate.pod, b.check); reason != "" {
			b.released(mate, "the node has changed: "+reason, true)
			return
		}
	}
	r.mates.cleared = true
	for _, mate := range r.mates.rows {
		if !mate.settled {
			b.cleared(mate)
		}
	}
}

func (b *Binder) cleared(r *row) {
	if r.kind == WriteNomination {
		b.report(Report{Event: Cleared, Pod: r.pod})
	}
	r.kind, r.stage, r.attempts = WriteBinding, queued, 0
	b.queue = append(b.queue, r)
}

// breakUp gives up the places of all mates after one has lost its own, so that they are decided anew together.
func (b *Binder) breakUp(m *mates) {
	if !m.wait() {
		return
	}
	m.broken = true
	for _, mate := range m.rows {
		if !mate.settled && mate.stage != inFlight { // an answer that comes sees that they are broken
			b.released(mate, lostMate, true)
		}
	}
}

// lostMate is why a placement is given up whose mate has lost its own.
const lostMate = "another member lost its place"

// displace gives up the placement of a victim that is not written yet.
func (b *Binder) displace(victim cluster.UID) {
	r := b.rows[victim]
	if r != nil && (r.stage == queued || r.stage == waiting || r.stage == pausing && r.kind == WriteNomination) {
		b.preempted(r)
	}
}

func (b *Binder) preempted(r *row) {
	b.giveUp(r, Report{Event: Preempted, Pod: r.pod, Message: "preempted by a pod of higher priority"})
}

// Forsake gives up the placements that wait for victims on nodes that are gone.
func (b *Binder) Forsake() {
	var lost []*row
	for _, r := range b.rows {
		if r.stage == waiting && b.store.Slot(r.node) == cluster.NoSlot {
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
		if !r.settled { // the end of one can settle another
			b.released(r, cluster.RejectNodeGone, true)
		}
	}
}

// press goes on with the eviction of a pod, if there is one, after something about the pod has changed.
func (b *Binder) press(victim cluster.UID) {
	if e := b.evictions.rows[victim]; e != nil {
		b.advance(e)
	}
}

// advance finds out what there is to do about a victim now.
func (b *Binder) advance(e *eviction) {
	victim := b.store.Pod(e.victim)
	switch {
	case victim == nil || !victim.Claimed() && (!e.outright || victim.Phase != cluster.Bound):
		b.left(e)
	case e.stage == inFlight: // the answer comes back to here
	case len(e.waiters) == 0 && !e.outright:
		b.forget(e)
	case e.done || victim.Deleting || b.rows[e.victim] != nil || b.trailing[e.victim] > 0: // nothing to write, or not yet
		b.rest(e)
	case e.stage == waiting:
		e.stage = queued
		b.evictions.queue = append(b.evictions.queue, e)
	}
}

func (b *Binder) newEviction(victim cluster.UID, why cluster.Condition) *eviction {
	e := &eviction{victim: victim, kind: WriteDisruption, stage: waiting, position: -1, why: why}
	b.evictions.rows[victim] = e
	return e
}

// Evict makes a bound pod leave though nobody waits for its place. It is nothing if the pod is on its way out.
func (b *Binder) Evict(victim cluster.UID, why cluster.Condition) {
	e := b.evictions.rows[victim]
	if e == nil {
		e = b.newEviction(victim, why)
	}
	e.outright = true
	b.advance(e)
}

// rest stops writing about a victim until something about it is seen.
func (b *Binder) rest(e *eviction) {
	if e.stage == pausing {
		b.evictions.pausing.Remove(e.position)
	}
	e.stage = waiting
}

// left goes on with those who waited for a victim.
func (b *Binder) left(e *eviction) {
	waiters := e.waiters
	e.waiters = nil
	if e.stage != inFlight {
		b.forget(e)
	}
	for _, r := range waiters {
		pod := b.store.Pod(r.pod)
		// A list tells of many pods at once: what became of this one may not have been settled yet.
		if !r.settled && r.stage == waiting && pod != nil && pod.Phase == cluster.Assumed && !pod.Obliged() { // its mates may wait on
			b.evict(r)
		}
	}
}

func (b *Binder) forget(e *eviction) {
	delete(b.evictions.rows, e.victim)
	b.rest(e)
}

// abandon lets a row's victims be, as far as nobody else waits for them. Those that are deleted stay so.
func (b *Binder) abandon(r *row) {
	for _, e := range r.evictions {
		e.waiters = slices.DeleteFunc(slices.Clone(e.waiters), func(other *row) bool { return other == r })
		if len(e.waiters) == 0 && e.stage != inFlight && !e.outright {
			b.forget(e)
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
	b.next++
	b.evictions.flights[b.next] = e
	e.stage = inFlight
	write := Write{ID: b.next, Kind: e.kind, Pod: e.victim, Namespace: victim.Namespace, Name: victim.Name}
	if e.kind == WriteDisruption {
		write.Condition = e.why
	}
	b.ready = append(b.ready, write)
}

// finishEviction takes the answer to a write about a victim. It answers false when the write was none.
func (b *Binder) finishEviction(result Result, now time.Time) bool {
	e := b.evictions.flights[result.ID]
	if e == nil {
		return false
	}
	delete(b.evictions.flights, result.ID)
	e.stage = waiting
	switch result.Outcome {
	case Written:
		e.attempts = 0
		e.done = e.kind == DeletePod
		e.kind = DeletePod
	case Gone:
		e.done = true
	case Refused:
		e.outright = false
		name := string(e.victim)
		if victim := b.store.Pod(e.victim); victim != nil {
			name = victim.Namespace + "/" + victim.Name
		}
		for _, r := range e.waiters {
			if !r.settled { // the end of one can settle another
				b.released(r, "evict "+name+": "+result.Message, false)
			}
		}
	default: // Unknown, NotSent, Conflict: both writes can be repeated
		e.attempts++
		if len(e.waiters) > 0 || e.outright {
			e.stage, e.until = pausing, now.Add(backoff(e.attempts))
			b.evictions.pausing.Push(e)
		}
	}
	if b.evictions.rows[e.victim] == e {
		b.advance(e)
	}
	return true
}
