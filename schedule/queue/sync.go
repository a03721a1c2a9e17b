package queue

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/quota"
)

// sync applies what has changed in the ledger: the configured queues, what queues and namespaces hold, and the cluster's capacity.
func (q *Queue) sync() {
	if q.tree.unordered && !q.store.Quota().Configured() {
		q.store.Quota().SkipUse(&q.seen) // with one queue without a limit nothing depends on what it holds
		return
	}
	q.applyChanges(q.store.Quota().Changed(&q.seen))
}

func (q *Queue) applyChanges(queues []*quota.Queue, tenants []*quota.Tenant, rebuilt bool) {
	if rebuilt {
		q.rebuild()
		return
	}
	if q.tree.readCapacity() {
		q.queues.measure(q.tree.capacity)
		q.tree.root.reorder(&q.tree)
	}
	for _, t := range tenants {
		q.tree.tenantChanged(t)
	}
	for _, changed := range queues {
		if n := q.tree.nodes[changed]; n != nil {
			q.tree.reposition(n)
		}
		for _, block := range slices.Clone(q.blocks.byLimit[changed]) {
			q.wakeFitting(block)
		}
	}
	for _, block := range q.blocks.toRecheck() {
		q.wakeFitting(block)
	}
}

// wakeFitting wakes as many units of a quota block as there is room for now, beyond those that are on trial already.
func (q *Queue) wakeFitting(block *quotaBlock) {
	for n := block.room(); n > 0 && block.units.Len() > 0; n-- {
		q.enqueue(q.blocks.take(block))
	}
}

// rebuild builds the tree again and puts every unit in its place. A shape queue stays parked if all its units were in parked ones of the same queue
// before; units that wait for a limit are tried again.
func (q *Queue) rebuild() {
	q.tree.rebuild()
	q.queues.beginRebuild(q.tree.capacity)
	q.blocks.clear()
	var filled []*ShapeQueue
	for _, u := range q.byArrival() {
		filled = q.reinsert(u, filled)
	}
	q.queues.endRebuild(filled)
}

// byArrival lists all units by their arrival. The heaps of the shape queues are filled in this order, and what they look like inside, which EachAlike
// shows, must not depend on a map.
func (q *Queue) byArrival() []*Unit {
	list := make([]*Unit, 0, len(q.units))
	for _, u := range q.units {
		if u.Gang == nil {
			list = append(list, u)
		}
	}
	for _, u := range q.gangs {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *Unit) int { return cmp.Compare(a.sequence, b.sequence) })
	return list
}

// reinsert puts a unit where it belongs in the new tree, and lists its shape queue, once, among those that may have to be parked.
func (q *Queue) reinsert(u *Unit, filled []*ShapeQueue) []*ShapeQueue {
	from, was := u.shapeQueue, u.leaf
	u.leaf, u.trialOf, u.shapeQueue, u.refused = q.leafOf(u.sample()), nil, nil, false
	u.leaf.countPending(1, u.waiting())
	if u.location != inShapeQueue && u.location != inQuotaBlock {
		return filled
	}
	wasBlocked := u.location == inQuotaBlock
	q.enqueue(u)
	if wasBlocked || was.queue != u.leaf.queue {
		return filled
	}
	sq := u.shapeQueue
	switch {
	case !from.wasParked:
		sq.wasReady = true
	case !sq.wasParked || from.checked.Revision < sq.checked.Revision:
		sq.wasParked, sq.checked = true, from.checked
	}
	if sq.listed {
		return filled
	}
	sq.listed = true
	return append(filled, sq)
}

// enqueue puts a unit that is ready into its shape queue.
func (q *Queue) enqueue(u *Unit) (parked bool) { return q.queues.add(u, q.shapeQueueOf(u)) }

// shapeQueueOf returns the shape queue in which a unit waits when it is ready, and makes it if there is none.
func (q *Queue) shapeQueueOf(u *Unit) *ShapeQueue {
	return q.queues.of(u, q.tree.nodeOf(u, &q.queues), q.tree.capacity)
}

// leafOf returns the node of the queue that a pod is charged to.
func (q *Queue) leafOf(pod *cluster.Pod) *node {
	at := pod.Queue()
	if n := q.tree.leaf(at); n != nil {
		return n
	}
	q.rebuild()
	if n := q.tree.leaf(at); n != nil {
		return n
	}
	return q.tree.adopt(at)
}
