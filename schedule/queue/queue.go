// Package queue says who is next: units ordered by priority, then age, with backoff after a refusal, and classes that fit nowhere parked
// until something changes that could help them.
//
// Units of one class are interchangeable for placement, so the queue is two levels of heaps: each class orders its units, and the ready
// classes are ordered by their first unit. Popping gives the same order as one big heap would, and parking a class of ten thousand units
// costs what parking one unit does: nothing is touched until it wakes.
//
// Invariants: a unit is in at most one of {its class's heap, the backoff heap, popped}; a ready class is not empty; a parked class gives
// no unit out. The size is bounded by the pods that the ledger knows.
//
// It is not the ledger and decides no placement. Time is an argument.
package queue

import (
	"cmp"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

// Unit is what waits: one pod. (A gang will be one Unit with several members.)
type Unit struct {
	Pod      cluster.UID
	Class    *cluster.Class
	Priority int32
	Created  int64 // nanoseconds
	// Attempts counts refusals and failed Bindings; it sets the length of the next backoff.
	Attempts int
	// NotBefore is the revision that a scheduler must have seen before it decides on the unit again.
	NotBefore cluster.Revision

	sequence uint64
	class    *classQueue // where it waits; nil while it backs off or is popped
	position int         // in the class's or in the backoff heap
	until    time.Time   // end of the backoff
}

// Seen is how much of the world a class has looked at without finding a place: the changes up to a revision, and the version of the
// censuses that it reads.
type Seen struct {
	Revision cluster.Revision
	Domains  uint64
}

type classQueue struct {
	class    *cluster.Class
	units    *heap.Heap[*Unit]
	position int  // among the ready classes, -1 when parked or empty
	parked   bool //
	seen     Seen // while parked: what is known not to help
}

// Queue holds the units that wait. The zero value is not usable; call New.
type Queue struct {
	units    map[cluster.UID]*Unit
	classes  map[*cluster.Class]*classQueue
	ready    *heap.Heap[*classQueue]
	backoff  *heap.Heap[*Unit]
	parked   map[*cluster.Class]*classQueue
	active   int // units in classes that are not parked
	sleeping int // units in parked classes
	sequence uint64
}

// New returns an empty Queue.
func New() *Queue {
	return &Queue{
		units:   make(map[cluster.UID]*Unit),
		classes: make(map[*cluster.Class]*classQueue),
		parked:  make(map[*cluster.Class]*classQueue),
		ready: heap.New(
			func(a, b *classQueue) bool { return Before(a.units.First(), b.units.First()) },
			func(q *classQueue, i int) { q.position = i }),
		backoff: heap.New(
			func(a, b *Unit) bool {
				return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.sequence, b.sequence)) < 0
			},
			func(u *Unit, i int) { u.position = i }),
	}
}

// Before is the order of the queue: priority, then age, then arrival.
func Before(a, b *Unit) bool {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Created, b.Created), cmp.Compare(a.sequence, b.sequence)) < 0
}

// Add makes a pod wait, or takes note that a waiting one has changed. It returns the unit, and whether its class is parked.
func (q *Queue) Add(pod *cluster.Pod) (u *Unit, parked bool) {
	u = q.units[pod.UID]
	if u != nil && u.Class == pod.Class && u.Priority == pod.Priority {
		return u, u.class != nil && u.class.parked
	}
	if u != nil {
		q.Remove(pod.UID)
	}
	u = q.unit(pod)
	return u, q.enter(u)
}

// AddDelayed makes a pod that does not wait here wait from a time on.
func (q *Queue) AddDelayed(pod *cluster.Pod, until time.Time) { q.Delay(q.unit(pod), until) }

func (q *Queue) unit(pod *cluster.Pod) *Unit {
	q.sequence++
	u := &Unit{Pod: pod.UID, Class: pod.Class, Priority: pod.Priority, Created: pod.Created, sequence: q.sequence}
	q.units[pod.UID] = u
	return u
}

// enter puts a unit into its class's heap.
func (q *Queue) enter(u *Unit) (parked bool) {
	c := q.classes[u.Class]
	if c == nil {
		c = &classQueue{class: u.Class, position: -1}
		c.units = heap.New(Before, func(u *Unit, i int) { u.position = i })
		q.classes[u.Class] = c
	}
	u.class = c
	c.units.Push(u)
	if c.parked {
		q.sleeping++
		return true
	}
	q.active++
	q.rank(c)
	return false
}

// rank puts a class where its first unit belongs among the ready ones.
func (q *Queue) rank(c *classQueue) {
	switch {
	case c.units.Len() == 0 || c.parked:
		if c.position >= 0 {
			q.ready.Remove(c.position)
		}
	case c.position < 0:
		q.ready.Push(c)
	default:
		q.ready.Fix(c.position)
	}
	if c.units.Len() == 0 {
		delete(q.classes, c.class)
		delete(q.parked, c.class)
	}
}

// leave takes a unit out of its class's heap.
func (q *Queue) leave(u *Unit) {
	c := u.class
	if c.parked {
		q.sleeping--
	} else {
		q.active--
	}
	if c.position >= 0 && c.units.Len() == 1 {
		q.ready.Remove(c.position) // while its first unit can still be compared
	}
	c.units.Remove(u.position)
	u.class = nil
	q.rank(c)
}

// Remove forgets a pod; it is nothing if the pod does not wait.
func (q *Queue) Remove(uid cluster.UID) {
	u := q.units[uid]
	if u == nil {
		return
	}
	delete(q.units, uid)
	switch {
	case u.class != nil:
		q.leave(u)
	case !u.until.IsZero():
		q.backoff.Remove(u.position)
	}
}

// Pop takes out the next unit; the caller answers with Done, Return, Delay or Park. nil: nothing is ready.
func (q *Queue) Pop() *Unit {
	if q.ready.Len() == 0 {
		return nil
	}
	u := q.ready.First().units.First()
	q.leave(u)
	return u
}

// Take takes a certain waiting unit out, as Pop does the next.
func (q *Queue) Take(u *Unit) { q.leave(u) }

// Done forgets a popped unit: it has its place.
func (q *Queue) Done(u *Unit) { delete(q.units, u.Pod) }

// Return puts a popped unit back at once.
func (q *Queue) Return(u *Unit) { q.enter(u) }

// Delay puts a popped unit aside until a time.
func (q *Queue) Delay(u *Unit, until time.Time) {
	u.until = until
	q.backoff.Push(u)
}

// Park puts a popped unit back and its class to sleep: no node fit it, as far as it has seen.
func (q *Queue) Park(u *Unit, seen Seen) {
	q.enter(u)
	c := u.class
	c.seen = seen
	if c.parked {
		return
	}
	q.active -= c.units.Len()
	q.sleeping += c.units.Len()
	c.parked = true
	q.parked[c.class] = c
	q.rank(c)
}

// Wake makes a parked class ready again.
func (q *Queue) Wake(class *cluster.Class) {
	c := q.parked[class]
	if c == nil {
		return
	}
	delete(q.parked, class)
	q.sleeping -= c.units.Len()
	q.active += c.units.Len()
	c.parked = false
	q.rank(c)
}

// Expire makes the units ready whose backoff is over.
func (q *Queue) Expire(now time.Time) {
	for q.backoff.Len() > 0 && !q.backoff.First().until.After(now) {
		u := q.backoff.Pop()
		u.until = time.Time{}
		q.enter(u)
	}
}

// NextExpiry is when the first backoff ends.
func (q *Queue) NextExpiry() (time.Time, bool) {
	if q.backoff.Len() == 0 {
		return time.Time{}, false
	}
	return q.backoff.First().until, true
}

// Parked calls visit for each parked class with what did not help it; visit returns what it has looked at, and whether to wake the class. The order is unspecified, and does not matter: waking one class does not affect another's.
func (q *Queue) Parked(visit func(class *cluster.Class, seen Seen) (Seen, bool)) {
	for class, c := range q.parked {
		seen, wake := visit(class, c.seen)
		c.seen = seen
		if wake {
			q.Wake(class)
		}
	}
}

// Active, Sleeping and BackingOff count units.
func (q *Queue) Active() int { return q.active }

// Sleeping is the number of units in parked classes.
func (q *Queue) Sleeping() int { return q.sleeping }

// BackingOff is the number of units that wait out a backoff.
func (q *Queue) BackingOff() int { return q.backoff.Len() }

// Waits reports whether the pod waits here.
func (q *Queue) Waits(uid cluster.UID) bool { return q.units[uid] != nil }

// EachWaiting visits the units of a class that wait in its heap, in no particular order.
func (q *Queue) EachWaiting(class *cluster.Class, visit func(*Unit)) {
	if c := q.classes[class]; c != nil {
		for i := range c.units.Len() {
			visit(c.units.At(i))
		}
	}
}
