package queue

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

// ShapeQueue is the units of one shape in one queue (where namespaces share it fairly: of one namespace in it). They are interchangeable for
// placement, so they are parked and wake together.
type ShapeQueue struct {
	// Shape of all its units.
	Shape *Shape

	node        *node
	units       *heap.Heap[*Unit]
	blocked     *quotaBlock // of those for which a limit leaves no room, nil for none
	position    int         // in the node's heap, -1 when parked or empty
	parked      bool
	parkedIndex int     // while parked: where it stands among those that are
	checked     Version // while parked: what is known not to help

	idle           bool // nobody waits in it
	previous, next *ShapeQueue
	// While the tree is rebuilt: how its units came, and that some have.
	wasParked, wasReady, listed bool
}

// Queue is the queue that the units wait in.
func (sq *ShapeQueue) Queue() *cluster.Queue { return sq.node.queue }

// Tenant is the namespace of all its units where namespaces share the queue fairly, else empty.
func (sq *ShapeQueue) Tenant() string {
	if sq.node.parent != nil && sq.node.parent.tenants != nil {
		return sq.node.name
	}
	return ""
}

// Len is the number of units that are ready, or are parked because the shape queue does.
func (sq *ShapeQueue) Len() int { return sq.units.Len() }

// Parked reports whether the shape queue is parked.
func (sq *ShapeQueue) Parked() bool { return sq.parked }

// maxIdleShapeQueues bounds the shape queues that are kept though nobody waits in them, so that a shape that comes and goes costs no allocation.
const maxIdleShapeQueues = 1024

// idleList is the shape queues that nobody waits in, the one that is idle for longest first.
type idleList struct {
	first, last *ShapeQueue
	len         int
}

func (list *idleList) add(sq *ShapeQueue) {
	sq.idle, sq.previous, sq.next = true, list.last, nil
	if list.last != nil {
		list.last.next = sq
	} else {
		list.first = sq
	}
	list.last = sq
	list.len++
}

func (list *idleList) remove(sq *ShapeQueue) {
	if sq.previous != nil {
		sq.previous.next = sq.next
	} else {
		list.first = sq.next
	}
	if sq.next != nil {
		sq.next.previous = sq.previous
	} else {
		list.last = sq.previous
	}
	sq.idle, sq.previous, sq.next = false, nil, nil
	list.len--
}

// shape queue returns the shape queue of a unit in a node, and makes it if there is none.
func (q *Queue) shapeQueueIn(u *Unit, n *node) *ShapeQueue {
	if u.gang == nil {
		if sq := n.singles[u.Class]; sq != nil {
			return sq
		}
	}
	shape, fresh := q.shapes.of(u)
	if u.gang != nil {
		if sq := n.gangs[shape]; sq != nil {
			return sq
		}
	}
	if fresh {
		shape.measure(q.capacity)
	}
	sq := &ShapeQueue{Shape: shape, node: n, units: heap.New(n.policy.units, setUnit), position: -1}
	shape.shapeQueues++
	if u.gang == nil {
		n.singles[u.Class] = sq
	} else {
		n.gangs[shape] = sq
	}
	q.idle.add(sq)
	return sq
}

func setUnit(u *Unit, i int)              { u.position = i }
func setShapeQueue(sq *ShapeQueue, i int) { sq.position = i }
func setNode(n *node, i int)              { n.position = i }

// retireIfEmpty takes note that a shape queue may have become idle, and forgets the oldest idle one if there are too many.
func (q *Queue) retireIfEmpty(sq *ShapeQueue) {
	if sq.idle || sq.units.Len() > 0 || sq.blocked != nil {
		return
	}
	q.idle.add(sq)
	if q.idle.len > maxIdleShapeQueues {
		q.forget(q.idle.first)
	}
}

// forget drops an idle shape queue.
func (q *Queue) forget(sq *ShapeQueue) {
	q.idle.remove(sq)
	if sq.Shape.Class != nil {
		delete(sq.node.singles, sq.Shape.Class)
	} else {
		delete(sq.node.gangs, sq.Shape)
	}
	q.releaseShape(sq.Shape)
}

func (q *Queue) releaseShape(shape *Shape) {
	shape.shapeQueues--
	if shape.shapeQueues == 0 {
		q.shapes.forget(shape)
	}
}

// enqueue puts a unit into its shape queue.
func (q *Queue) enqueue(u *Unit) (parked bool) {
	sq := q.shapeQueueOf(u)
	u.location, u.shapeQueue, u.Shape = inShapeQueue, sq, sq.Shape
	if sq.idle {
		q.idle.remove(sq)
	}
	sq.units.Push(u)
	if sq.parked {
		q.parkedUnits++
		return true
	}
	q.activeUnits++
	q.rank(sq)
	return false
}

// shapeQueueOf returns the shape queue that a unit waits in when it is ready, and makes it if there is none.
func (q *Queue) shapeQueueOf(u *Unit) *ShapeQueue { return q.shapeQueueIn(u, q.nodeOf(u)) }

// dequeue takes a unit out of its shape queue.
func (q *Queue) dequeue(u *Unit) {
	sq := u.shapeQueue
	if sq.parked {
		q.parkedUnits--
	} else {
		q.activeUnits--
	}
	sq.units.Remove(u.position)
	u.location = popped
	if sq.units.Len() == 0 && sq.parked {
		q.unlistParked(sq)
	}
	q.rank(sq)
	q.retireIfEmpty(sq)
}

// rank puts a shape queue where its first unit belongs among the ready ones.
func (q *Queue) rank(sq *ShapeQueue) {
	queues := sq.node.shapeQueues
	switch {
	case sq.units.Len() > 0 && !sq.parked:
		if sq.position < 0 {
			queues.Push(sq)
		} else {
			queues.Fix(sq.position)
		}
	case sq.position >= 0:
		queues.Remove(sq.position)
	default:
		return
	}
	sq.node.propagate()
}

// park takes a shape queue out of the order until it is woken.
func (q *Queue) park(sq *ShapeQueue, seen Version) {
	sq.checked = seen
	if sq.parked {
		return
	}
	q.activeUnits -= sq.units.Len()
	q.parkedUnits += sq.units.Len()
	sq.parked, sq.parkedIndex = true, len(q.parked)
	q.parked = append(q.parked, sq)
	q.rank(sq)
}

// Wake makes a parked shape queue ready again.
func (q *Queue) Wake(sq *ShapeQueue) {
	if sq == nil || !sq.parked {
		return
	}
	q.unlistParked(sq)
	q.parkedUnits -= sq.units.Len()
	q.activeUnits += sq.units.Len()
	q.rank(sq)
}

// unlistParked strikes a shape queue off the list of those that are parked.
func (q *Queue) unlistParked(sq *ShapeQueue) {
	end := len(q.parked) - 1
	last := q.parked[end]
	q.parked[sq.parkedIndex], last.parkedIndex = last, sq.parkedIndex
	q.parked[end] = nil
	q.parked, sq.parked = q.parked[:end], false
}
