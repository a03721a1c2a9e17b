// Package queue says who is next: units (a pod, or the waiting members of a gang) in a tree of queues, each ordered by its sort policy, with
// backoff after a refusal, shapes that fit nowhere parked until something changes that could help them, and units for which a queue's limit
// leaves no room asleep until it does.
//
// Units of one shape in one queue are interchangeable for placement, so they stand in a line. A leaf orders its lines by their first units,
// an inner queue orders its children by their first units or by their shares; each is a heap, and every node knows the unit that it would give
// out. Popping gives the same order as sorting everything would, a change of what a queue holds moves one node, and parking a line of ten
// thousand units costs what parking one unit does: nothing is touched until it wakes.
//
// Invariants: a unit is in exactly one of {its line, its line's jam, the backoff heap, the muster of gangs that lack members, popped}; a ready
// line is not empty; a parked line gives no unit out. The size is bounded by the pods that the ledger knows; of lines without units a bounded
// number is kept.
//
// It reads the ledger, changes nothing in it but ChangedQueues, and decides no placement. Time is an argument.
package queue

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

// Seen is how much of the world a line has looked at without finding a place: the changes up to a revision, and the version of the
// censuses that it reads.
type Seen struct {
	Revision cluster.Revision
	Domains  uint64
}

// Queue holds the units that wait. The zero value is not usable; call New.
type Queue struct {
	store *cluster.Store
	now   time.Time // of the latest Expire

	units  map[cluster.UID]*Unit // by each pod that waits
	gangs  map[*cluster.Unit]*Unit
	muster []*Unit // gangs that lack members
	rested *heap.Heap[*Unit]

	shapes shapes
	idle   idleLines
	parked []*Line
	jams   map[*cluster.Queue][]*jam
	lapsed []*jam

	root     *node
	nodes    map[*cluster.Queue]*node
	leaves   map[*cluster.Queue]*node // that the units of a queue wait in
	latest   *node                    // of the leaves, that was asked for
	historic []*node                  // whose children's histories count
	capacity []int64                  // by kind, while sized
	sized    bool                     // some order is relative to the capacity
	simple   bool                     // nobody had configured queues when the tree was planted
	plants   uint64                   // how often the tree was planted
	skipped  uint                     // calls of sync while simple

	active   int // units in lines that are not parked
	sleeping int // units in parked lines
	jammed   int // units that a limit keeps asleep
	sequence uint64
}

// New returns an empty Queue over a ledger, which it only reads. It is the one that asks the ledger for ChangedQueues.
func New(store *cluster.Store) *Queue {
	q := &Queue{
		store:  store,
		units:  make(map[cluster.UID]*Unit),
		gangs:  make(map[*cluster.Unit]*Unit),
		shapes: shapes{singles: make(map[*cluster.Class]*Shape), gangs: make(map[string]*Shape)},
		jams:   make(map[*cluster.Queue][]*jam),
		rested: heap.New(
			func(a, b *Unit) bool {
				return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.sequence, b.sequence)) < 0
			}, setUnit),
	}
	store.ChangedQueues() // all that has changed so far is in the tree
	q.plant()
	return q
}

// Add makes a pod wait, or takes note that a waiting one has changed. A member of a gang joins the gang's unit, which is ready when as many
// wait as it needs. It returns the unit, and whether the unit's line is parked.
func (q *Queue) Add(pod *cluster.Pod) (u *Unit, parked bool) {
	u = q.units[pod.UID]
	if u != nil && u.Gang == pod.Unit && u.unchanged(pod) {
		return u, u.at == inLine && u.line.parked
	}
	if u != nil && u.gang != nil && u.Gang == pod.Unit {
		q.rejoin(u, pod)
		return u, u.at == inLine && u.line.parked
	}
	// A pod that is another's member now, or of another class, is still the one whose Plan was refused.
	seen := q.Remove(pod.UID)
	if pod.Unit == nil {
		u = q.single(pod, seen)
		return u, q.enter(u)
	}
	return q.join(pod, seen, time.Time{})
}

// AddDelayed makes a pod that does not wait here wait from a time on; with it the gang that it is a member of.
func (q *Queue) AddDelayed(pod *cluster.Pod, until time.Time) {
	seen := q.Remove(pod.UID)
	if pod.Unit == nil {
		q.Delay(q.single(pod, seen), until)
		return
	}
	q.join(pod, seen, until)
}

// unchanged reports whether the unit knows its pod as it is.
func (u *Unit) unchanged(pod *cluster.Pod) bool {
	if u.gang == nil {
		return u.Class == pod.Class && u.Priority == pod.Priority
	}
	return u.gang.members[pod.UID] == memberOf(pod)
}

// single makes a pod's own unit. Who decides on it must have seen a revision.
func (q *Queue) single(pod *cluster.Pod, seen cluster.Revision) *Unit {
	home := q.nodeOf(pod)
	q.sequence++
	u := &Unit{
		Pod: pod.UID, Class: pod.Class, Priority: pod.Priority, Created: pod.Created, NotBefore: seen, sequence: q.sequence, home: home,
	}
	u.one[0] = pod
	home.add(1, 1)
	q.units[pod.UID] = u
	return u
}

// join adds a pod to the unit of its gang, and puts that where it belongs; not before a time, and who decides on it must have seen a revision.
func (q *Queue) join(pod *cluster.Pod, seen cluster.Revision, until time.Time) (u *Unit, parked bool) {
	u = q.gangs[pod.Unit]
	if u == nil {
		home := q.nodeOf(pod)
		q.sequence++
		u = &Unit{Gang: pod.Unit, sequence: q.sequence, home: home, gang: &gang{members: make(map[cluster.UID]member)}}
		home.add(1, 0)
		q.gangs[pod.Unit] = u
		u.at = inMuster
		u.position = len(q.muster)
		q.muster = append(q.muster, u)
	}
	popped := u.at == out
	q.withdraw(u)
	u.gang.join(memberOf(pod))
	u.home.add(0, 1)
	q.units[pod.UID] = u
	u.NotBefore = max(u.NotBefore, seen)
	if until.After(u.until) {
		u.until = until
	}
	if popped {
		return u, false
	}
	return u, q.file(u)
}

// rejoin takes note that a member has changed.
func (q *Queue) rejoin(u *Unit, pod *cluster.Pod) {
	popped := u.at == out
	q.withdraw(u)
	u.gang.leave(pod.UID)
	u.gang.join(memberOf(pod))
	if !popped {
		q.file(u)
	}
}

// Remove forgets a pod, and returns what its unit's NotBefore was; it is nothing if the pod does not wait.
func (q *Queue) Remove(uid cluster.UID) (seen cluster.Revision) {
	u := q.units[uid]
	if u == nil {
		return 0
	}
	seen = u.NotBefore
	popped := u.at == out
	q.withdraw(u)
	q.drop(u, uid)
	if !popped && q.holds(u) {
		q.file(u)
	}
	return seen
}

// drop forgets one pod of a unit that is nowhere, and with the last the unit.
func (q *Queue) drop(u *Unit, uid cluster.UID) {
	delete(q.units, uid)
	u.home.add(0, -1)
	if u.gang != nil {
		u.one[0] = u.sample()
		u.gang.leave(uid)
		if len(u.gang.members) > 0 {
			return
		}
		delete(q.gangs, u.Gang)
	}
	u.home.add(-1, 0)
	q.answer(u, true)
}

// Refresh takes note that the PodGroup of a gang, or the number of its members that have places, has changed.
func (q *Queue) Refresh(gang *cluster.Unit) {
	if u := q.gangs[gang]; u != nil && u.at != out && u.outdated() {
		q.withdraw(u)
		q.file(u)
	}
}

// holds reports whether the unit is still known.
func (q *Queue) holds(u *Unit) bool {
	if u.gang != nil {
		return q.gangs[u.Gang] == u
	}
	return q.units[u.Pod] == u
}

// file puts a unit that is nowhere where it belongs.
func (q *Queue) file(u *Unit) (parked bool) {
	if !u.until.After(q.now) {
		u.until = time.Time{}
	}
	if u.gang != nil {
		u.describe()
		if u.pods() < u.need {
			q.answer(u, true)
			u.at, u.position = inMuster, len(q.muster)
			q.muster = append(q.muster, u)
			return false
		}
	}
	if !u.until.IsZero() {
		q.answer(u, true)
		u.at = inRest
		q.rested.Push(u)
		return false
	}
	return q.enter(u)
}

// withdraw takes a unit from wherever it is.
func (q *Queue) withdraw(u *Unit) {
	switch u.at {
	case inLine:
		q.leave(u)
	case inJam:
		q.escape(u)
	case inRest:
		q.rested.Remove(u.position)
	case inMuster:
		last := q.muster[len(q.muster)-1]
		q.muster[u.position], last.position = last, u.position
		q.muster = slices.Delete(q.muster, len(q.muster)-1, len(q.muster))
	case out:
	}
	u.at = out
}

// Pop takes out the next unit; the caller answers with Done, Return, Delay, Park or ParkQuota. nil: nothing is ready.
func (q *Queue) Pop() *Unit {
	q.sync()
	for {
		u := q.root.first
		if u == nil {
			return nil
		}
		q.leave(u)
		if u.outdated() {
			q.file(u)
			continue
		}
		return q.taken(u)
	}
}

// Take takes a certain waiting unit out, as Pop does the next.
func (q *Queue) Take(u *Unit) {
	q.withdraw(u)
	q.taken(u)
}

func (q *Queue) taken(u *Unit) *Unit {
	u.until = time.Time{}
	if u.Since.IsZero() {
		u.Since = q.now
	}
	return u
}

// Done forgets the pods of a popped unit that have their places; none named: all of them. What remains of a gang waits on, as a unit that
// nobody has tried yet.
func (q *Queue) Done(u *Unit, placed ...cluster.UID) {
	if !q.holds(u) {
		return
	}
	if u.gang == nil {
		q.drop(u, u.Pod)
		return
	}
	if len(placed) == 0 {
		for _, pod := range u.Members() {
			placed = append(placed, pod.UID)
		}
	}
	for _, uid := range placed {
		if q.units[uid] == u {
			q.drop(u, uid)
		}
	}
	if q.holds(u) {
		u.Attempts, u.Since = 0, time.Time{}
		q.answer(u, true)
		q.file(u)
	}
}

// Return puts a popped unit back at once.
func (q *Queue) Return(u *Unit) {
	if q.holds(u) {
		q.file(u)
	}
}

// Delay puts a popped unit aside until a time.
func (q *Queue) Delay(u *Unit, until time.Time) {
	if !q.holds(u) {
		return
	}
	u.until = until
	q.answer(u, true)
	if u.gang != nil {
		q.file(u)
		return
	}
	u.at = inRest
	q.rested.Push(u)
}

// Park puts a popped unit back and its line to sleep: no node fit it, as far as it has seen.
func (q *Queue) Park(u *Unit, seen Seen) {
	if !q.holds(u) {
		return
	}
	q.file(u)
	if u.at == inLine {
		q.park(u.line, seen)
	}
}

// Expire tells the time, and makes the units ready whose backoff is over.
func (q *Queue) Expire(now time.Time) {
	q.now = now
	if len(q.historic) > 0 {
		q.rollOver(now)
	}
	for q.rested.Len() > 0 && !q.rested.First().until.After(now) {
		u := q.rested.Pop()
		u.at, u.until = out, time.Time{}
		q.file(u)
	}
}

// NextExpiry is when the first backoff ends.
func (q *Queue) NextExpiry() (time.Time, bool) {
	if q.rested.Len() == 0 {
		return time.Time{}, false
	}
	return q.rested.First().until, true
}

// Parked calls visit for each parked line with what did not help it; visit returns what it has looked at, and whether to wake the line. The
// order says nothing, but is the same whenever the history is.
func (q *Queue) Parked(visit func(l *Line, seen Seen) (Seen, bool)) {
	for _, l := range slices.Backward(q.parked) { // for waking a line moves the last one to its place
		seen, wake := visit(l, l.seen)
		l.seen = seen
		if wake {
			q.Wake(l)
		}
	}
}
