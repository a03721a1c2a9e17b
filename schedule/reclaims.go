package schedule

import (
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/place/victims"
	"hilbert.dev/hilbert/schedule/queue"
)

// reclaimEvery is the least time between two looks at which units could reclaim by now.
const reclaimEvery = 5 * time.Second

// wantsVictims takes note that a unit of a shape queue will want to preempt when something changes.
func (b *blocked) wantsVictims(key queueKey, priority int32) {
	r := b.byQueue[key]
	if !r.wants || priority > r.wanted {
		r.wanted = priority
	}
	if !r.wants {
		r.wants = true
		b.wanting++
	}
	b.byQueue[key] = r
	if b.wanting <= 2*b.wantingKept+maxRecords {
		return
	}
	// Shapes that left without waking leave records behind.
	waits := map[queueKey]bool{key: true}
	b.queue.Parked(func(sq *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) {
		waits[keyOfQueue(sq)] = true
		return seen, false
	})
	b.queue.QuotaBlocked(func(sq *queue.ShapeQueue) { waits[keyOfQueue(sq)] = true })
	for other := range b.byQueue {
		if !waits[other] {
			b.forgetVictims(other)
		}
	}
	b.wantingKept = b.wanting
}

// noVictims takes note that there are no victims for the units of a shape queue, up to a priority, and what the search said of later.
func (b *blocked) noVictims(key queueKey, priority int32, search *victims.Eviction) {
	b.wantsVictims(key, priority)
	r := b.byQueue[key]
	r.searched, r.noVictimsTo, r.protected = true, priority, search.Protected.Earlier(r.protected)
	r.spared = r.spared || search.Spared
	b.byQueue[key] = r
	b.willEnd(search.Protected.Until)
}

// mayHaveVictims reports whether it is worth to search victims for a unit of a shape queue.
func (b *blocked) mayHaveVictims(key queueKey, priority int32) bool {
	r := b.byQueue[key]
	return !r.searched || priority > r.noVictimsTo
}

// forgetVictims forgets what is known of victims for a shape queue; what a gang lacks and has gained stays.
func (b *blocked) forgetVictims(key queueKey) {
	r, known := b.byQueue[key]
	if r.wants {
		b.wanting--
	}
	if r = (blockedQueue{lacking: r.lacking, roomGained: r.roomGained}); r != (blockedQueue{}) {
		b.byQueue[key] = r
	} else if known {
		delete(b.byQueue, key)
	}
}

// willEnd takes note that a protection ends at a time; 0: there is none.
func (b *blocked) willEnd(until int64) {
	if until != 0 && (b.unprotected == 0 || until < b.unprotected) {
		b.unprotected = until
	}
}

// retryReclaims wakes units that found no victims, and may find some by now although no change of a node shows it: their queue is within its guarantee, and
// may have been beyond it then, or the others within theirs; or it uses more of it than then; or something that was protected from them is not any more; or another
// queue has come to borrow.
func (b *blocked) retryReclaims(now time.Time) {
	if at, due := b.nextReclaim(); !due || now.Before(at) {
		return
	}
	changed := b.reclaimed != b.store.Revision()
	b.reclaimed, b.reclaimedAt, b.unprotected = b.store.Revision(), now, 0
	unprotected := func(key queueKey) bool {
		until := b.byQueue[key].protected.Until
		return until != 0 && until <= now.UnixNano()
	}
	for key := range b.byQueue {
		if !unprotected(key) {
			b.willEnd(b.byQueue[key].protected.Until)
		}
	}
	b.queue.Parked(func(sq *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) {
		key := keyOfQueue(sq)
		r := b.byQueue[key]
		moved := changed && r.searched && (r.spared || admit.WithinGuarantee(sq.Queue(), sq.Shape.Ask))
		if !moved && !unprotected(key) {
			return seen, false
		}
		b.forgetVictims(key)
		return seen, true
	})
	b.wakeForBorrowers(changed)
	b.queue.RetryBlocked(func(sq *queue.ShapeQueue) bool {
		key := keyOfQueue(sq)
		retry := unprotected(key) || changed && b.byQueue[key].spared
		if retry {
			b.forgetVictims(key)
		}
		return retry
	})
}

// nextReclaim is when retryReclaims has something to do; due is false while it has not.
func (b *blocked) nextReclaim() (at time.Time, due bool) {
	if !b.store.Quota().Configured() || b.wanting == 0 {
		return time.Time{}, false
	}
	at = b.reclaimedAt.Add(reclaimEvery)
	if b.reclaimed != b.store.Revision() || b.borrowers.left > 0 {
		return at, true
	}
	if end := time.Unix(0, b.unprotected); end.After(at) {
		at = end
	}
	return at, b.unprotected != 0
}

// protectedText says that a unit waits for what is protected, and until when; empty if it does not.
func (b *blocked) protectedText(u *queue.Unit) string {
	r := b.byQueue[keyOf(u)]
	if text := r.protected.Text(); text != "" || !r.spared {
		return text
	}
	return "pods of lower priority stay because they took back what queue " + u.Queue().Name + " is guaranteed"
}

// anyLater reports whether some unit waits for what may be evicted later.
func (b *blocked) anyLater() bool {
	for _, r := range b.byQueue {
		if r.spared || r.protected.Until != 0 {
			return true
		}
	}
	return false
}

// whyParked is the condition of a unit that fits nowhere: why, and what it may evict later.
func (b *blocked) whyParked(u *queue.Unit, why *explanation) facts.Condition {
	condition := why.condition
	condition.Message = continued(condition.Message, why.protectedFor(u.Queue(), b.protectedText(u)))
	return condition
}

// continued adds something to what is said; nothing if it is empty.
func continued(said, more string) string {
	if more == "" {
		return said
	}
	return strings.TrimSuffix(said, ".") + "; " + more
}

// Protected says of each pod that waits for others which may be evicted later, which these are and when.
func (s *Scheduler) Protected() map[facts.UID]string {
	all := make(map[facts.UID]string)
	if !s.blocked.anyLater() {
		return all
	}
	s.store.EachPod(func(pod *cluster.Pod) {
		if u := s.queue.Unit(pod.UID); u != nil && u.Shape != nil {
			if text := s.blocked.protectedText(u); text != "" {
				all[pod.UID] = text
			}
		}
	})
	return all
}
