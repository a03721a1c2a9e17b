package queue

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/resource"
)

// Queue holds the units that wait. The zero value is not usable; call New.
//
// It knows every unit by its pods, and puts each into exactly one of its parts: ready or parked in a shape queue, blocked by quota, backing off,
// gathering members. The tree says which ready unit is next.
type Queue struct {
	store *cluster.Store
	now   time.Time // of the latest Expire

	units    map[facts.UID]*Unit // by each pod that waits
	gangs    map[*cluster.Unit]*Unit
	sequence uint64 // of the latest arrival
	early    map[facts.UID]struct{}

	tree      tree
	queues    shapeQueues
	blocks    quotaBlocks
	backoff   *heap.Heap[*Unit]
	gathering gatheringGangs

	seen quota.Cursor // what of the ledger's tree is applied
}

// New returns an empty Queue over a ledger, which it only reads.
func New(store *cluster.Store) *Queue {
	q := &Queue{
		store:  store,
		units:  make(map[facts.UID]*Unit),
		gangs:  make(map[*cluster.Unit]*Unit),
		early:  make(map[facts.UID]struct{}),
		tree:   tree{store: store},
		queues: shapeQueues{shapes: shapes{singles: make(map[*cluster.Class]*Shape), gangs: make(map[string]*Shape)}},
		backoff: heap.New(
			func(a, b *Unit) bool {
				return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.sequence, b.sequence)) < 0
			}, setUnit),
	}
	q.blocks = quotaBlocks{queues: &q.queues, byLimit: make(map[*quota.Queue][]*quotaBlock)}
	store.Quota().Changed(&q.seen) // all that has changed so far is in the tree
	q.rebuild()
	return q
}

// Add makes a pod wait, or updates one that waits already. A member of a gang joins the gang's unit, which is ready when as many
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

// AddDelayed makes a pod that does not wait here wait from a time on, and until a revision is seen; with it the gang that it is a member of.
func (q *Queue) AddDelayed(pod *cluster.Pod, seen changes.Revision, until time.Time) {
	seen = max(seen, q.Remove(pod.UID))
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

// newSingle makes the unit of a pod without a gang. It must not be decided before a revision is seen.
func (q *Queue) newSingle(pod *cluster.Pod, seen changes.Revision) *Unit {
	leaf := q.leafOf(pod)
	q.sequence++
	u := &Unit{
		Pod: pod.UID, Class: pod.Class, Priority: pod.Priority, Created: pod.Created, NotBefore: seen, sequence: q.sequence, leaf: leaf,
	}
	u.one[0] = pod
	_, u.Early = q.early[pod.UID]
	leaf.countPending(1, 1)
	q.units[pod.UID] = u
	return u
}

// join adds a pod to the unit of its gang, and puts that where it belongs. The unit backs off until a time, and must not be decided before a
// revision is seen.
func (q *Queue) join(pod *cluster.Pod, seen changes.Revision, until time.Time) (u *Unit, parked bool) {
	u = q.gangs[pod.Unit]
	if u == nil {
		leaf := q.leafOf(pod)
		q.sequence++
		u = &Unit{Gang: pod.Unit, sequence: q.sequence, leaf: leaf, gang: &gang{members: make(map[facts.UID]member)}}
		leaf.countPending(1, 0)
		q.gangs[pod.Unit] = u
		q.gathering.add(u)
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

// updateMember updates a member that has changed.
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
func (q *Queue) Remove(uid facts.UID) (seen changes.Revision) {
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

// drop removes a pod from a popped unit, and with the last pod the unit.
func (q *Queue) drop(u *Unit, uid facts.UID) {
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
	q.blocks.endTrial(u, true)
}

// SetEarly gives a pod its turn before all of its priority in its queue, or takes that back; its queue comes first with it among queues that are ordered by their first units.
// It does nothing for members of gangs. Whoever gives it takes it back.
func (q *Queue) SetEarly(uid facts.UID, early bool) {
	if early {
		q.early[uid] = struct{}{}
	} else {
		delete(q.early, uid)
	}
	u := q.units[uid]
	if u == nil || u.gang != nil || u.Early == early {
		return
	}
	u.Early = early
	switch {
	case u.location == inShapeQueue:
		u.shapeQueue.units.Fix(u.position)
		u.shapeQueue.rank()
		u.shapeQueue.node.reordered(u)
	case u.location == inQuotaBlock && !u.refused:
		u.shapeQueue.blocked.units.Fix(u.position)
	}
}

// Refresh updates a gang whose PodGroup, or the number of whose members with places, has changed.
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

// route puts a popped unit where it belongs.
func (q *Queue) route(u *Unit) (parked bool) {
	if !u.until.After(q.now) {
		u.until = time.Time{}
	}
	if u.gang != nil {
		u.refresh()
		if u.waiting() < u.need {
			q.blocks.endTrial(u, true)
			q.gathering.add(u)
			return false
		}
	}
	if !u.until.IsZero() {
		q.blocks.endTrial(u, true)
		u.location = inBackoff
		q.backoff.Push(u)
		return false
	}
	return q.enqueue(u)
}

// detach takes a unit out of the place where it waits.
func (q *Queue) detach(u *Unit) {
	switch u.location {
	case inShapeQueue:
		q.queues.remove(u)
	case inQuotaBlock:
		q.blocks.remove(u)
	case inBackoff:
		q.backoff.Remove(u.position)
	case inGathering:
		q.gathering.remove(u)
	case popped:
	}
	u.location = popped
}

// Pop takes out the next unit; the caller answers with Done, Return, Delay, Park or BlockByQuota. nil: nothing is ready.
func (q *Queue) Pop() *Unit {
	q.sync()
	for {
		u := q.tree.root.first
		if u == nil {
			return nil
		}
		q.queues.remove(u)
		if u.outdated() {
			q.route(u)
			continue
		}
		return u.markTried(q.now)
	}
}

// First is the unit that Pop would take out, nil if none is ready.
func (q *Queue) First() *Unit {
	q.sync()
	return q.tree.root.first
}

// Take takes a certain waiting unit out, as Pop does the next.
func (q *Queue) Take(u *Unit) {
	q.detach(u)
	u.markTried(q.now)
}

// markTried records when the unit was first tried; a backoff is over.
func (u *Unit) markTried(now time.Time) *Unit {
	u.until = time.Time{}
	if u.Since.IsZero() {
		u.Since = now
	}
	return u
}

// Decides reports whether the caller still decides on a unit that it has taken out: it has not gone since, nor become another unit.
func (q *Queue) Decides(u *Unit) bool { return q.holds(u) && u.location == popped }

// Waits reports whether a unit waits in the queue, whether or not others like it sleep or a queue's limit is in the way: it is not being decided on, does not back off
// and has its members.
func (q *Queue) Waits(u *Unit) bool { return u.location == inShapeQueue || u.location == inQuotaBlock }

// IsParked reports whether the shape queue that a unit was taken out of has been parked since.
func (q *Queue) IsParked(u *Unit) bool { return q.shapeQueueOf(u).parked }

// Done forgets the pods of a popped unit that have their places; none named: all of them. What remains of a gang waits on, as a unit that
// was not tried yet.
func (q *Queue) Done(u *Unit, placed ...facts.UID) {
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
		q.blocks.endTrial(u, true)
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
	q.blocks.endTrial(u, true)
	if u.gang != nil {
		q.route(u)
		return
	}
	u.location = inBackoff
	q.backoff.Push(u)
}

// Park puts a popped unit back and parks its shape queue: no node fitted it in the version that was checked.
func (q *Queue) Park(u *Unit, checked Version) {
	if !q.holds(u) {
		return
	}
	q.route(u)
	if u.location == inShapeQueue {
		q.queues.park(u.shapeQueue, checked)
	}
}

// Expire tells the time, and readies the units whose backoff is over.
func (q *Queue) Expire(now time.Time) {
	q.now = now
	q.tree.setTime(now)
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

// Parked calls visit for each parked shape queue with what is known not to help it; visit returns what it has checked now, and whether to wake the
// shape queue. The order has no meaning, but is the same whenever the history is.
func (q *Queue) Parked(visit func(sq *ShapeQueue, checked Version) (Version, bool)) {
	q.queues.eachParked(visit)
}

// Wake makes a parked shape queue ready again.
func (q *Queue) Wake(sq *ShapeQueue) { q.queues.wake(sq) }

// BlockByQuota blocks a popped unit until the limit of a queue leaves room for it. limiting is the unit's queue or one above it. The unit is woken
// when limiting has Eased since, and the room suffices.
func (q *Queue) BlockByQuota(u *Unit, limiting *quota.Queue) {
	if !q.holds(u) {
		return
	}
	if u.gang != nil {
		if u.refresh(); u.waiting() < u.need {
			q.route(u)
			return
		}
	}
	q.blocks.endTrial(u, u.gang != nil)
	q.blocks.add(u, q.shapeQueueOf(u), limiting)
}

// BlockByGrant blocks a popped unit as BlockByQuota does, because what its node would have given it has no room. Units of the block are woken as if each
// took as much.
func (q *Queue) BlockByGrant(u *Unit, short quota.Shortfall) {
	q.BlockByQuota(u, short.Queue)
	if u.location == inQuotaBlock {
		u.shapeQueue.blocked.grant = resource.Amount{Kind: short.Kind, Value: short.Asked}
	}
}

// QuotaBlocked visits the shape queues with units that wait for a limit, in no particular order.
func (q *Queue) QuotaBlocked(visit func(sq *ShapeQueue)) {
	for _, list := range q.blocks.byLimit {
		for _, block := range list {
			visit(block.shapeQueue)
		}
	}
}

// RetryBlocked makes units ready again that wait for a limit: all those of the shape queues for which retry says so.
func (q *Queue) RetryBlocked(retry func(sq *ShapeQueue) bool) {
	q.sync()
	var units []*Unit
	q.QuotaBlocked(func(sq *ShapeQueue) {
		if retry(sq) {
			sq.blocked.each(func(u *Unit) { units = append(units, u) })
		}
	})
	slices.SortFunc(units, func(a, b *Unit) int { return cmp.Compare(a.sequence, b.sequence) })
	for _, u := range units {
		q.detach(u)
		q.enqueue(u)
	}
}

// ForgetGrants forgets how much units would have been given: by now it may be less.
func (q *Queue) ForgetGrants() {
	for _, list := range q.blocks.byLimit {
		for _, block := range list {
			block.grant = resource.Amount{}
		}
	}
}

// TreeGeneration counts how often the tree was rebuilt. A ShapeQueue is of no use after the generation in which it was obtained.
func (q *Queue) TreeGeneration() uint64 {
	q.sync()
	return q.tree.generation
}

// Unit returns the unit that a pod waits in, nil if it does not wait.
func (q *Queue) Unit(uid facts.UID) *Unit { return q.units[uid] }

// Gang returns the unit of a gang's members that wait, nil if none does.
func (q *Queue) Gang(gang *cluster.Unit) *Unit { return q.gangs[gang] }

// EachAlike visits the units of the queue and the shape of a unit that are ready or parked, in no particular order: what was decided about one of
// them holds for all.
func (q *Queue) EachAlike(u *Unit, visit func(*Unit)) {
	sq := u.shapeQueue
	if u.location != inShapeQueue {
		if u.Shape == nil {
			return
		}
		sq = q.shapeQueueOf(u)
	}
	for i := range sq.units.Len() {
		visit(sq.units.At(i))
	}
}

// Counts counts the units by how they wait.
type Counts struct {
	Ready        int // would be tried now
	Parked       int // fit no node
	QuotaBlocked int // a queue's limit leaves no room
	BackingOff   int // wait out a backoff
	Gathering    int // gangs that lack members
}

// Counts counts the units by how they wait.
func (q *Queue) Counts() Counts {
	return Counts{
		Ready: q.queues.readyUnits, Parked: q.queues.parkedUnits, QuotaBlocked: q.blocks.units,
		BackingOff: q.backoff.Len(), Gathering: len(q.gathering.units),
	}
}
