package bind

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/heap"
)

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

// evictions are the pods that have to leave: what is written about each, and which placements wait for it.
//
// A victim whose own placement is not written yet is not deleted: its placement is released. While a victim's Binding is in flight nothing is
// written about it until the outcome is certain.
//
// A pod that has to leave though no placement waits for it (a member of a gang that came to hold places in part) is not deleted but evicted: a disruption
// budget may hold it back, and then it is tried again.
//
// A pod has one eviction at most. It ends when the victim has left or nobody waits for it any more; a deletion that was sent stays sent. Methods that may find
// that a victim has left return the placements that waited for it: what becomes of those is the Binder's.
type evictions struct {
	store      *cluster.Store
	placements *placements
	out        *outbox

	rows    map[facts.UID]*eviction
	queue   []*eviction
	flights map[uint64]*eviction
	pausing *heap.Heap[*eviction]
}

func newEvictions(store *cluster.Store, placements *placements, out *outbox) evictions {
	return evictions{
		store: store, placements: placements, out: out,
		rows: make(map[facts.UID]*eviction), flights: make(map[uint64]*eviction),
		pausing: heap.New(
			func(a, b *eviction) bool {
				return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.victim, b.victim)) < 0
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

// of returns the eviction of a pod, new if there is none.
func (v *evictions) of(victim facts.UID, why facts.Condition) *eviction {
	e := v.rows[victim]
	if e == nil {
		e = &eviction{victim: victim, kind: WriteDisruption, stage: waiting, position: -1, why: why}
		v.rows[victim] = e
	}
	return e
}

// await has a row wait for a victim, which is evicted.
func (v *evictions) await(r *row, victim facts.UID) (freed []*row) {
	why := facts.Condition{Reason: reasonPreemption, Message: messagePreemption}
	if r.reclaims {
		why.Message = messageReclaim
	}
	e := v.of(victim, why)
	e.waiters = append(e.waiters, r)
	r.evictions = append(r.evictions, e)
	return v.advance(e)
}

// dissolve evicts a pod though no placement waits for it: its gang holds places in part.
func (v *evictions) dissolve(victim facts.UID, why facts.Condition) (freed []*row) {
	e := v.of(victim, why)
	e.unconditional = true
	return v.advance(e)
}

// recheck advances the eviction of a pod, if there is one, after something about the pod has changed.
func (v *evictions) recheck(victim facts.UID) (freed []*row) {
	if e := v.rows[victim]; e != nil {
		return v.advance(e)
	}
	return nil
}

// advance does the next step of an eviction.
func (v *evictions) advance(e *eviction) (freed []*row) {
	victim := v.store.Pod(e.victim)
	switch {
	case victim == nil || !victim.Claimed() && (!e.unconditional || victim.Phase != cluster.Bound):
		return v.left(e)
	case e.stage == inFlight: // the answer calls advance again
	case len(e.waiters) == 0 && !e.unconditional:
		v.forget(e)
	case e.done || victim.Deleting || v.placements.unsettled(e.victim): // nothing to write, or not yet
		v.idle(e)
	case e.stage == waiting:
		e.stage = queued
		v.queue = append(v.queue, e)
	}
	return nil
}

// dissolves reports whether only the victim's gang is why it leaves.
func (e *eviction) dissolves() bool { return e.unconditional && len(e.waiters) == 0 }

// idle stops writing about a victim until the watch sees a change of it.
func (v *evictions) idle(e *eviction) {
	if e.stage == pausing {
		v.pausing.Remove(e.position)
	}
	e.stage = waiting
}

// left ends the eviction of a victim that has left. The placements that waited for it go on in the order in which they are served: where there is no room for all
// of them any more, the most important gets it.
func (v *evictions) left(e *eviction) (freed []*row) {
	freed, e.waiters = e.waiters, nil
	slices.SortStableFunc(freed, func(x, y *row) int {
		switch {
		case servedBefore(x, y):
			return -1
		case servedBefore(y, x):
			return 1
		}
		return 0
	})
	if e.stage != inFlight {
		v.forget(e)
	}
	return freed
}

// forget ends an eviction. A row that waited for it may name it still when the pod is a victim again, of another Plan: that eviction goes on.
func (v *evictions) forget(e *eviction) {
	if v.rows[e.victim] == e {
		delete(v.rows, e.victim)
	}
	v.idle(e)
}

// leave takes a row off the evictions that it waits for, and ends those without other waiters. Deleted victims stay deleted.
func (v *evictions) leave(r *row) {
	for _, e := range r.evictions {
		e.waiters = slices.DeleteFunc(slices.Clone(e.waiters), func(other *row) bool { return other == r })
		if len(e.waiters) == 0 && e.stage != inFlight && !e.unconditional {
			v.forget(e)
		}
	}
	r.evictions = nil
}

// ready hands out the writes about victims that can be started now.
func (v *evictions) ready(now time.Time) {
	for len(v.flights) < MaxEvictionsInFlight && v.pausing.Len() > 0 && !v.pausing.First().until.After(now) {
		v.start(v.pausing.Pop())
	}
	for len(v.flights) < MaxEvictionsInFlight && len(v.queue) > 0 {
		e := v.queue[0]
		v.queue[0] = nil
		v.queue = v.queue[1:]
		if e.stage == queued {
			v.start(e)
		}
	}
}

func (v *evictions) start(e *eviction) {
	victim := v.store.Pod(e.victim)
	if e.dissolves() && (victim.Unit == nil || !victim.Unit.Partial()) { // the gang has got its other members
		e.stage = waiting
		v.forget(e)
		return
	}
	e.stage = inFlight
	e.named, e.node = PodName{victim.Namespace, victim.Name, victim.UID}, victim.Node()
	write := Write{Kind: e.kind, Pod: e.victim, Namespace: victim.Namespace, Name: victim.Name}
	switch {
	case e.kind == WriteDisruption:
		write.Condition = e.why
	case e.dissolves():
		write.Kind = EvictPod
	}
	if write.Kind != WriteDisruption {
		v.store.Units().Evicting(victim)
	}
	v.flights[v.out.add(OwnerEviction, &write)] = e
}

// finish applies the result of a write about a victim; e is nil if there is none. deleted says that the API server has deleted the victim now. The waiters of an
// eviction that was refused lose their places. After those were told, resume goes on.
func (v *evictions) finish(result *Result, now time.Time) (e *eviction, deleted bool) {
	e = v.flights[result.ID.Number]
	if e == nil {
		return nil, false
	}
	delete(v.flights, result.ID.Number)
	e.stage = waiting
	if victim := v.store.Pod(e.victim); victim != nil && e.kind == DeletePod && result.Outcome != Written {
		v.store.Units().NotEvicted(victim, result.Outcome == Unknown)
	}
	switch result.Outcome {
	case Written:
		e.attempts = 0
		e.done = e.kind == DeletePod
		e.kind = DeletePod
		deleted = e.done
	case Gone:
		e.done = true
	case Refused:
		e.unconditional = false
	default: // Unknown, NotSent, Conflict, Withheld: both writes can be repeated
		e.attempts++
		if len(e.waiters) > 0 || e.unconditional {
			e.stage, e.until = pausing, now.Add(backoff(e.attempts))
			v.pausing.Push(e)
		}
	}
	return e, deleted
}

// refusal says that a victim could not be evicted, and why.
func (v *evictions) refusal(e *eviction, message string) string {
	name := string(e.victim)
	if victim := v.store.Pod(e.victim); victim != nil {
		name = victim.Namespace + "/" + victim.Name
	}
	return "evict " + name + ": " + message
}

// resume does the next step of an eviction after an answer, unless it has ended meanwhile.
func (v *evictions) resume(e *eviction) (freed []*row) {
	if v.rows[e.victim] != e {
		return nil
	}
	return v.advance(e)
}
