package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
	"hilbert.dev/hilbert/schedule/queue"
)

const (
	// maxRecords is how many records of shape queues that do not sleep any more may gather.
	maxRecords = 4096
	// flushMost is how many shape queues that sleep are tried again by one flush.
	flushMost = 16
)

// blocked records why units sleep, and decides what wakes them. Units of one shape queue sleep and wake together: what keeps one from all
// nodes keeps the others, too.
//
// Of each shape it keeps the explanation; of each shape queue that sleeps, up to which priority no victims were found, and how much room a
// gang has gained since. changed looks at one node on which more is free than before; unblock forgets what is
// known of a shape queue, which is then tried again.
//
// Example: gang train lacks places for 4 of its members and sleeps. A pod ends on node a, where two members fit now: the gang has gained 2, and
// sleeps on. Another ends on b, where 3 fit: 2+3 is at least 4, so the gang is tried again. It is tried once, not for each pod that ends.
type blocked struct {
	store        *cluster.Store
	queue        *queue.Queue
	reservations *admit.Reservations
	explanations explanations
	byQueue      map[queueKey]blockedQueue
	wanting      int              // of byQueue: whose units would preempt if they could
	wantingKept  int              // wanting when those were last dropped that do not sleep any more
	kept         int              // the length of byQueue when it was last cleared of gangs that are gone
	checked      changes.Revision // what sleeps has been checked against changes up to here
	reclaimed    changes.Revision // what sleeps has been checked for reclaiming up to here,
	reclaimedAt  time.Time        // at this time
	borrowers    borrowers
	unprotected  int64 // when the first protection of byQueue ends, or before; 0: there is none
	parked       parkedIndex
	generation   uint64 // of the tree that has what is in it
	wakes        wakeList
	flush        flush
}

// blockedQueue is what is known of a shape queue that sleeps. Which pods could be victims depends on the priority, so a unit of a higher one
// has to be tried even though its shape sleeps.
type blockedQueue struct {
	wants       bool               // a unit would preempt if it could
	wanted      int32              // the highest priority of such units
	searched    bool               // victims were searched for
	noVictimsTo int32              // there were none up to this priority
	protected   victims.Protection // of what could be evicted later
	spared      bool               // there may be when the queue uses more (victims.Eviction.Spared)
	lacking     int                // of a gang: the members that found no place when it was put to sleep; 0: not known
	roomGained  int                // for how many more members there may be room since
	// borrowersSince is the look that found that another queue borrows more since victims were searched for; 0: none has.
	borrowersSince uint64
}

// queueKey names a shape queue, also after it was dropped and created again.
type queueKey struct {
	queue  *quota.Queue
	tenant string
	shape  *queue.Shape
}

func keyOf(u *queue.Unit) queueKey { return queueKey{u.Queue(), u.Tenant(), u.Shape} }

func keyOfQueue(sq *queue.ShapeQueue) queueKey { return queueKey{sq.Queue(), sq.Tenant(), sq.Shape} }

func newBlocked(store *cluster.Store, q *queue.Queue, reservations *admit.Reservations, interval time.Duration) blocked {
	return blocked{
		store: store, queue: q, reservations: reservations, explanations: newExplanations(interval), byQueue: make(map[queueKey]blockedQueue), parked: newParkedIndex(),
	}
}

// unblock forgets what is known of a shape queue: its units are tried again.
func (b *blocked) unblock(key queueKey) {
	b.forgetVictims(key)
	delete(b.byQueue, key)
}

// sleeps takes note that a gang was put to sleep, and for how many of its members there was no place. It counts what it lacks each time: what
// the explanation says may be as old as conditions.minInterval.
func (b *blocked) sleeps(key queueKey, lacking int) {
	r := b.byQueue[key]
	r.lacking, r.roomGained = lacking, 0
	b.byQueue[key] = r
	if len(b.byQueue) <= 2*b.kept+maxRecords {
		return
	}
	// Gangs that went without waking leave records behind.
	asleep := make(map[queueKey]bool)
	b.queue.Parked(func(sq *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) {
		asleep[keyOfQueue(sq)] = true
		return seen, false
	})
	for other, r := range b.byQueue {
		if other != key && !asleep[other] && !r.wants {
			delete(b.byQueue, other)
		}
	}
	b.kept = len(b.byQueue)
}

// park puts a unit to sleep that fits nowhere on a revision, with the others of its shape queue.
func (b *blocked) park(u *queue.Unit, revision changes.Revision) {
	checked := b.version(u.Shape, revision)
	b.queue.Park(u, checked)
	if sq := u.ShapeQueue(); sq != nil && sq.Parked() {
		b.parks(sq, checked)
	}
}

// parks takes note that a shape queue sleeps, and against what it was checked.
func (b *blocked) parks(sq *queue.ShapeQueue, checked queue.Version) {
	r := b.byQueue[keyOfQueue(sq)]
	b.parked.add(sq, checked, r.wants, r.wanted)
	b.parked.purge()
}

// followTree files everything that sleeps anew when the tree was rebuilt, because it has other shape queues then.
func (b *blocked) followTree() {
	if generation := b.queue.TreeGeneration(); generation != b.generation {
		b.generation, b.parked = generation, newParkedIndex()
		b.queue.Parked(func(sq *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) {
			b.parks(sq, seen)
			return seen, false
		})
	}
}

// recheck wakes the units that sleep and that would now fit somewhere because of a change since then. What stands in other places than the node
// itself matters only through the censuses that a class reads; when those have changed, one decision settles it.
func (b *blocked) recheck() {
	newest := b.store.Revision()
	if b.checked == newest {
		return
	}
	since := b.checked
	b.checked = newest
	b.followTree()
	b.wakes.checkTree(b.queue)
	log := b.store.Log()
	if !log.Covers(since) { // too long ago to tell
		b.queue.Parked(func(sq *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) {
			b.unblock(keyOfQueue(sq))
			return seen, true
		})
		return
	}
	for r := since; r < newest; r++ {
		change := log.At(r)
		if change.Kind&(changes.Freed|changes.Redefined|changes.Lent) == 0 {
			continue
		}
		b.parked.helped(b.store, change.Slot, func(p *parked) {
			switch {
			case !p.sleeps():
				b.parked.remove(p)
			case p.checked.Revision <= r && b.helps(p.sq, change):
				b.wakeParked(p)
			}
		})
	}
	for _, p := range slices.Backward(b.parked.apart) {
		if !p.sleeps() {
			b.parked.remove(p)
			continue
		}
		now := b.version(p.sq.Shape, newest)
		if wakes := b.mayFit(p, now); wakes {
			b.wakeParked(p)
		}
		p.checked = now
	}
}

// wakeParked wakes a shape queue that sleeps.
func (b *blocked) wakeParked(p *parked) {
	b.parked.remove(p)
	b.unblock(keyOfQueue(p.sq))
	b.queue.Wake(p.sq)
}

// mayFit reports whether what has changed up to a version may let a unit of those listed apart in somewhere, or let it preempt.
func (b *blocked) mayFit(p *parked, now queue.Version) bool {
	log := b.store.Log()
	if !log.Covers(p.checked.Revision) || now.Domains != p.checked.Domains {
		return true // too long ago, or too far away, to tell without a decision
	}
	for r := p.checked.Revision; r < now.Revision; r++ {
		change := log.At(r)
		if p.sq.Shape.Anchored && change.Kind&changes.Redefined != 0 {
			return true // a member may be there, and bind the others to another domain now, or to none
		}
		if b.helps(p.sq, change) {
			return true
		}
	}
	return false
}

// helps reports whether a change of a node wakes a shape queue at once. Where only single pods may fit, it goes on the wake list instead.
func (b *blocked) helps(sq *queue.ShapeQueue, change changes.Change) bool {
	if change.Kind&freeingChanges(sq.Shape) == 0 {
		return false
	}
	if b.changed(sq, change.Slot) {
		return true
	}
	if sq.Shape.Class != nil && rules.Fits(&b.store.State, change.Slot, sq.Shape.Class) {
		b.wakes.addSlot(change.Slot)
		b.wakes.add(sq)
	}
	return false
}

// membersMoved wakes a gang that sleeps, of whose members some got places or lost them: they bind where the others may go.
func (b *blocked) membersMoved(u *queue.Unit) {
	if sq := u.ShapeQueue(); sq != nil && sq.Parked() && sq.Shape.Anchored {
		b.unblock(keyOfQueue(sq))
		b.queue.Wake(sq)
	}
}

// freeingChanges is the kinds of changes after which there may be more room for a shape.
func freeingChanges(shape *queue.Shape) changes.Kind {
	kinds := changes.Freed | changes.Redefined
	asks := func(p queue.Part) bool { return p.Class.AsksReclaimed() }
	if shape.Class != nil && shape.Class.AsksReclaimed() || slices.ContainsFunc(shape.Parts, asks) {
		kinds |= changes.Lent
	}
	return kinds
}

// changed reports whether a node on which more is free than before wakes a shape queue at once: its units may use the reservation there, or
// find victims there. A gang has to find room for as many members as found none; so much is gained with each node at most.
func (b *blocked) changed(sq *queue.ShapeQueue, slot cluster.Slot) bool {
	key := keyOfQueue(sq)
	r := b.byQueue[key]
	if id := b.store.Reservation(slot); id != cluster.NoReservation && b.reservations.MayUse(sq, id, slot) {
		return true
	}
	if class := sq.Shape.Class; class != nil {
		return r.wants && rules.FitsWithoutLower(b.store, slot, class, r.wanted)
	}
	gained := r.roomGained
	for i := range sq.Shape.Parts {
		class := sq.Shape.Parts[i].Class
		if r.wants && rules.FitsWithoutLower(b.store, slot, class, r.wanted) {
			return true
		}
		if rules.FitsNode(&b.store.State, slot, class) {
			gained += rules.PodsThatFit(&b.store.State, slot, class)
		}
	}
	if gained != r.roomGained {
		r.roomGained = gained
		b.byQueue[key] = r
	}
	return gained > 0 && gained >= r.lacking
}

// version is what a unit of a shape that fits nowhere on a revision has looked at.
func (b *blocked) version(shape *queue.Shape, revision changes.Revision) queue.Version {
	v := queue.Version{Revision: revision}
	if shape.Class != nil {
		v.Domains = b.store.Counts().Version(shape.Class.Constraints)
		return v
	}
	for i := range shape.Parts {
		v.Domains += b.store.Counts().Version(shape.Parts[i].Class.Constraints)
	}
	return v
}

// wakeNext wakes the next shape queue of the wake list.
func (b *blocked) wakeNext() { b.wakes.wakeNext(b.queue, &b.store.State) }

// decided says that the unit woken last has had its turn.
func (b *blocked) decided() { b.wakes.deciding = false }

// flush wakes some of the sleeping shape queues although no known change helps them. It guards against wake-ups that are missing in this file: a
// unit that finds free places only because a flush has woken it is such a defect. The shell calls Scheduler.Flush every minute, counts what it
// finds, and a simulation fails on it.
type flush struct {
	next  int // how many of the sleeping shape queues were woken since the last time that all had their turn
	tried map[queueKey]queue.Version
}

// flushSome wakes the next share of what sleeps.
func (b *blocked) flushSome() {
	f := &b.flush
	b.recheck() // what is to be woken anyway is no find
	if len(b.wakes.queues) > 0 {
		return // some of what sleeps is about to be woken
	}
	if f.tried == nil {
		f.tried = make(map[queueKey]queue.Version)
	}
	clear(f.tried)
	revision, at := b.store.Revision(), 0
	b.queue.Parked(func(sq *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) {
		if at++; at <= f.next || len(f.tried) == flushMost {
			return seen, false
		}
		key := keyOfQueue(sq)
		f.tried[key] = b.version(sq.Shape, revision)
		b.unblock(key)
		return seen, true
	})
	if f.next += len(f.tried); f.next >= at {
		f.next = 0
	}
}

// flushed reports whether a flush has woken the units that sleep with this one, and none of them was tried since.
func (b *blocked) flushed(u *queue.Unit) bool {
	if len(b.flush.tried) == 0 {
		return false
	}
	_, woken := b.flush.tried[keyOf(u)]
	return woken
}

// onlyFlushed reports whether a unit that is tried now was woken by a flush, and nothing has come up since that might help it.
func (b *blocked) onlyFlushed(u *queue.Unit) bool {
	if len(b.flush.tried) == 0 {
		return false
	}
	key := keyOf(u)
	since, flushed := b.flush.tried[key]
	delete(b.flush.tried, key)
	log := b.store.Log()
	now := b.version(u.Shape, b.store.Revision())
	if !flushed || since.Domains != now.Domains || !log.Covers(since.Revision) {
		return false
	}
	kinds := freeingChanges(u.Shape)
	for r := since.Revision; r < now.Revision; r++ {
		if log.At(r).Kind&kinds != 0 {
			return false
		}
	}
	return true
}
