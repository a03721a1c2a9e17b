// Package queue says who is next: units (a pod, or the waiting members of a gang) in a tree of queues, each ordered by its sort policy, with
// backoff after a refusal, shapes that fit nowhere parked until something changes that could help them, and units for which a queue's limit
// leaves no room blocked until it does.
//
// Units of one shape in one queue are interchangeable for placement, so they stand in a shape queue. A leaf orders its shape queues by their first units,
// an inner queue orders its children by their first units or by their shares; each is a heap, and every node knows the unit that it would give
// out. Popping gives the same order as sorting everything would, a change of what a queue holds moves one node, and parking a shape queue of ten
// thousand units costs what parking one unit does: nothing is touched until it wakes.
//
// Invariants: a unit is in exactly one of {its shape queue, its shape queue's quota block, the backoff heap, the gathering list of gangs that lack members, popped}; a ready
// shape queue is not empty; a parked shape queue gives no unit out. The size is bounded by the pods that the ledger knows; of shape queues without units a bounded
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

// Version is how much of the world a shape queue has looked at without finding a place: the changes up to a revision, and the version of the
// censuses that it reads.
type Version struct {
	Revision cluster.Revision
	Domains  uint64
}

// Queue holds the units that wait. The zero value is not usable; call New.
type Queue struct {
	store *cluster.Store
	now   time.Time // of the latest Expire

	units     map[cluster.UID]*Unit // by each pod that waits
	gangs     map[*cluster.Unit]*Unit
	gathering []*Unit // gangs that lack members
	backoff   *heap.Heap[*Unit]

	shapes  shapes
	idle    idleList
	parked  []*ShapeQueue
	blocked map[*cluster.Queue][]*quotaBlock
	recheck []*quotaBlock

	root         *node
	nodes        map[*cluster.Queue]*node
	leaves       map[*cluster.Queue]*node // that the units of a queue wait in
	lastLeaf     *node                    // of the leaves, that was asked for
	withHistory  []*node                  // whose children's histories count
	capacity     []int64                  // by kind, while sized
	usesCapacity bool                     // some order is relative to the capacity
	unordered    bool                     // nobody had configured queues when the tree was rebuilt
	generation   uint64                   // how often the tree was rebuilt
	skippedSyncs uint                     // calls of sync while simple

	activeUnits  int // units in shape queues that are not parked
	parkedUnits  int // units in parked shape queues
	blockedUnits int // units that a limit blocks
	sequence     uint64
}

// New returns an empty Queue over a ledger, which it only reads. It is the one that asks the ledger for ChangedQueues.
func New(store *cluster.Store) *Queue {
	q := &Queue{
		store:   store,
		units:   make(map[cluster.UID]*Unit),
		gangs:   make(map[*cluster.Unit]*Unit),
		shapes:  shapes{singles: make(map[*cluster.Class]*Shape), gangs: make(map[string]*Shape)},
		blocked: make(map[*cluster.Queue][]*quotaBlock),
		backoff: heap.New(
			func(a, b *Unit) bool {
				return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.sequence, b.sequence)) < 0
			}, setUnit),
	}
	store.ChangedQueues() // all that has changed so far is in the tree
	q.rebuild()
	return q
}

// Add makes a pod wait, or takes note that a waiting one has changed. A member of a gang joins the gang's unit, which is ready when as many
// wait as it needs. It returns the unit, and whether the unit's shape queue is parked.
func (q *Queue) Add(pod *cluster.Pod) (u *Unit, parked bool) {
	u = q.units[pod.UID]
	if u != nil && u.Gang == pod.Unit && u.unchanged(pod) {
		return u, u.location == inShapeQueue && u.shapeQueue.parked
	}
	if u != nil && u.gang != nil && u.Gang == pod.Unit {
		q.updateMember(u, pod)
		return u, u.location == inShapeQueue && u.shapeQueue.parked
	}
	// A pod that is another's member now, or of another class, is still the one whose Plan was refused.
	seen := q.Remove(pod.UID)
	if pod.Unit == nil {
		u = q.newSingle(pod, seen)
		return u, q.enqueue(u)
	}
	return q.join(pod, seen, time.Time{})
}

// AddDelayed makes a pod that does not wait here wait from a time on; with it the gang that it is a member of.
func (q *Queue) AddDelayed(pod *cluster.Pod, until time.Time) {
	seen := q.Remove(pod.UID)
	if pod.Unit == nil {
		q.Delay(q.newSingle(pod, seen), until)
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

// newSingle makes a pod's own unit. Who decides on it must have seen a revision.
func (q *Queue) newSingle(pod *cluster.Pod, seen cluster.Revision) *Unit {
	leaf := q.leafOf(pod)
	q.sequence++
	u := &Unit{
		Pod: pod.UID, Class: pod.Class, Priority: pod.Priority, Created: pod.Created, NotBefore: seen, sequence: q.sequence, leaf: leaf,
	}
	u.one[0] = pod
	leaf.countPending(1, 1)
	q.units[pod.UID] = u
	return u
}

// join adds a pod to the unit of its gang, and puts that where it belongs; not before a time, and who decides on it must have seen a revision.
func (q *Queue) join(pod *cluster.Pod, seen cluster.Revision, until time.Time) (u *Unit, parked bool) {
	u = q.gangs[pod.Unit]
	if u == nil {
		leaf := q.leafOf(pod)
		q.sequence++
		u = &Unit{Gang: pod.Unit, sequence: q.sequence, leaf: leaf, gang: &gang{members: make(map[cluster.UID]member)}}
		leaf.countPending(1, 0)
		q.gangs[pod.Unit] = u
		u.location = inGathering
		u.position = len(q.gathering)
		q.gathering = append(q.gathering, u)
	}
	popped := u.location == popped
	q.detach(u)
	u.gang.join(memberOf(pod))
	u.leaf.countPending(0, 1)
	q.units[pod.UID] = u
	u.NotBefore = max(u.NotBefore, seen)
	if until.After(u.until) {
		u.until = until
	}
	if popped {
		return u, false
	}
	return u, q.route(u)
}

// updateMember takes note that a member has changed.
func (q *Queue) updateMember(u *Unit, pod *cluster.Pod) {
	popped := u.location == popped
	q.detach(u)
	u.gang.leave(pod.UID)
	u.gang.join(memberOf(pod))
	if !popped {
		q.route(u)
	}
}

// Remove forgets a pod, and returns what its unit's NotBefore was; it is nothing if the pod does not wait.
func (q *Queue) Remove(uid cluster.UID) (seen cluster.Revision) {
	u := q.units[uid]
	if u == nil {
		return 0
	}
	seen = u.NotBefore
	popped := u.location == popped
	q.detach(u)
	q.drop(u, uid)
	if !popped && q.holds(u) {
		q.route(u)
	}
	return seen
}

// drop forgets one pod of a unit that is nowhere, and with the last the unit.
func (q *Queue) drop(u *Unit, uid cluster.UID) {
	delete(q.units, uid)
	u.leaf.countPending(0, -1)
	if u.gang != nil {
		u.one[0] = u.sample()
		u.gang.leave(uid)
		if len(u.gang.members) > 0 {
			return
		}
		delete(q.gangs, u.Gang)
	}
	u.leaf.countPending(-1, 0)
	q.endTrial(u, true)
}

// Refresh takes note that the PodGroup of a gang, or the number of its members that have places, has changed.
func (q *Queue) Refresh(gang *cluster.Unit) {
	if u := q.gangs[gang]; u != nil && u.location != popped && u.outdated() {
		q.detach(u)
		q.route(u)
	}
}

// holds reports whether the unit is still known.
func (q *Queue) holds(u *Unit) bool {
	if u.gang != nil {
		return q.gangs[u.Gang] == u
	}
	return q.units[u.Pod] == u
}

// route puts a unit that is nowhere where it belongs.
func (q *Queue) route(u *Unit) (parked bool) {
	if !u.until.After(q.now) {
		u.until = time.Time{}
	}
	if u.gang != nil {
		u.refresh()
		if u.waiting() < u.need {
			q.endTrial(u, true)
			u.location, u.position = inGathering, len(q.gathering)
			q.gathering = append(q.gathering, u)
			return false
		}
	}
	if !u.until.IsZero() {
		q.endTrial(u, true)
		u.location = inBackoff
		q.backoff.Push(u)
		return false
	}
	return q.enqueue(u)
}

// detach takes a unit from wherever it is.
func (q *Queue) detach(u *Unit) {
	switch u.location {
	case inShapeQueue:
		q.dequeue(u)
	case inQuotaBlock:
		q.unblock(u)
	case inBackoff:
		q.backoff.Remove(u.position)
	case inGathering:
		last := q.gathering[len(q.gathering)-1]
		q.gathering[u.position], last.position = last, u.position
		q.gathering = slices.Delete(q.gathering, len(q.gathering)-1, len(q.gathering))
	case popped:
	}
	u.location = popped
}

// Pop takes out the next unit; the caller answers with Done, Return, Delay, Park or BlockByQuota. nil: nothing is ready.
func (q *Queue) Pop() *Unit {
	q.sync()
	for {
		u := q.root.first
		if u == nil {
			return nil
		}
		q.dequeue(u)
		if u.outdated() {
			q.route(u)
			continue
		}
		return q.markTried(u)
	}
}

// Take takes a certain waiting unit out, as Pop does the next.
func (q *Queue) Take(u *Unit) {
	q.detach(u)
	q.markTried(u)
}

func (q *Queue) markTried(u *Unit) *Unit {
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
		q.endTrial(u, true)
		q.route(u)
	}
}

// Return puts a popped unit back at once.
func (q *Queue) Return(u *Unit) {
	if q.holds(u) {
		q.route(u)
	}
}

// Delay puts a popped unit aside until a time.
func (q *Queue) Delay(u *Unit, until time.Time) {
	if !q.holds(u) {
		return
	}
	u.until = until
	q.endTrial(u, true)
	if u.gang != nil {
		q.route(u)
		return
	}
	u.location = inBackoff
	q.backoff.Push(u)
}

// Park puts a popped unit back and parks its shape queue: no node fit it, as far as it has seen.
func (q *Queue) Park(u *Unit, seen Version) {
	if !q.holds(u) {
		return
	}
	q.route(u)
	if u.location == inShapeQueue {
		q.park(u.shapeQueue, seen)
	}
}

// Expire tells the time, and makes the units ready whose backoff is over.
func (q *Queue) Expire(now time.Time) {
	q.now = now
	if len(q.withHistory) > 0 {
		q.startEpochs(now)
	}
	for q.backoff.Len() > 0 && !q.backoff.First().until.After(now) {
		u := q.backoff.Pop()
		u.location, u.until = popped, time.Time{}
		q.route(u)
	}
}

// NextExpiry is when the first backoff ends.
func (q *Queue) NextExpiry() (time.Time, bool) {
	if q.backoff.Len() == 0 {
		return time.Time{}, false
	}
	return q.backoff.First().until, true
}

// Parked calls visit for each parked shape queue with what did not help it; visit returns what it has looked at, and whether to wake the shape queue. The
// order says nothing, but is the same whenever the history is.
func (q *Queue) Parked(visit func(sq *ShapeQueue, seen Version) (Version, bool)) {
	for _, sq := range slices.Backward(q.parked) { // for waking a shape queue moves the last one to its place
		seen, wake := visit(sq, sq.checked)
		sq.checked = seen
		if wake {
			q.Wake(sq)
		}
	}
}
