package queue

import (
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/heap"
)

// ShapeQueue is the units of one shape in one queue; in a queue that namespaces share fairly, those of one namespace. They are interchangeable for
// placement: where one fits nowhere, no other does. So they are parked and woken together, and parking ten thousand units costs what parking one does.
//
// Example: a Job of a thousand pods that ask for two CPUs each is one ShapeQueue of a thousand units. The first is tried and fits nowhere. The
// ShapeQueue is parked, and the other 999 are not tried. A node frees two CPUs: the ShapeQueue is woken, the first unit is placed, the second fits
// nowhere, and the ShapeQueue is parked again.
type ShapeQueue struct {
	// Shape of all its units.
	Shape *Shape

	node     *node
	units    *heap.Heap[*Unit]
	blocked  *quotaBlock // its units for which a queue's limit leaves no room; nil for none
	position int         // in the node's heap, -1 when parked or empty

	parked      bool
	parkedIndex int     // while parked: its index among the parked ones
	checked     Version // while parked: what is known not to help

	idle           bool // no unit waits in it
	previous, next *ShapeQueue

	// While the tree is rebuilt: some of its units came from a parked shape queue; some from a ready one; it is listed to be parked again.
	wasParked, wasReady, listed bool
}

// Version is the version of the world against which a shape queue was checked without finding a place: the ledger's revision, and the version of
// the censuses that its shape reads.
type Version struct {
	Revision changes.Revision
	Domains  uint64
}

// Queue is the queue that the units wait in.
func (sq *ShapeQueue) Queue() *quota.Queue { return sq.node.queue }

// Tenant is the namespace of all its units if namespaces share the queue fairly, else empty.
func (sq *ShapeQueue) Tenant() string {
	if sq.node.parent != nil && sq.node.parent.tenants != nil {
		return sq.node.name
	}
	return ""
}

// Len is the number of units that are ready, or parked with the shape queue.
func (sq *ShapeQueue) Len() int { return sq.units.Len() }

// Parked reports whether the shape queue is parked.
func (sq *ShapeQueue) Parked() bool { return sq.parked }

func setUnit(u *Unit, i int)              { u.position = i }
func setShapeQueue(sq *ShapeQueue, i int) { sq.position = i }

// shapeQueues is all shape queues. It knows which are parked and which are idle, and counts the units in them.
type shapeQueues struct {
	shapes shapes
	idle   idleList
	parked []*ShapeQueue

	readyUnits  int // in shape queues that are not parked
	parkedUnits int // in parked shape queues
}

// of returns the shape queue for a unit in a node of the tree, and makes it if there is none.
func (s *shapeQueues) of(u *Unit, n *node, capacity []int64) *ShapeQueue {
	if u.gang == nil {
		if sq := n.singles[u.Class]; sq != nil {
			return sq
		}
	}
	shape, fresh := s.shapes.of(u)
	if u.gang != nil {
		if sq := n.gangs[shape]; sq != nil {
			return sq
		}
	}
	if fresh {
		shape.measure(capacity)
	}
	sq := &ShapeQueue{Shape: shape, node: n, units: heap.New(n.policy.units, setUnit), position: -1}
	shape.shapeQueues++
	if u.gang == nil {
		n.singles[u.Class] = sq
	} else {
		n.gangs[shape] = sq
	}
	s.idle.add(sq)
	return sq
}

// add puts a unit into its shape queue.
func (s *shapeQueues) add(u *Unit, sq *ShapeQueue) (parked bool) {
	u.location, u.shapeQueue, u.Shape = inShapeQueue, sq, sq.Shape
	s.use(sq)
	sq.units.Push(u)
	if sq.parked {
		s.parkedUnits++
		return true
	}
	s.readyUnits++
	sq.rank()
	return false
}

// remove takes a unit out of its shape queue.
func (s *shapeQueues) remove(u *Unit) {
	sq := u.shapeQueue
	if sq.parked {
		s.parkedUnits--
	} else {
		s.readyUnits--
	}
	sq.units.Remove(u.position)
	u.location = popped
	if sq.units.Len() == 0 && sq.parked {
		s.unlistParked(sq)
	}
	sq.rank()
	s.retireIfEmpty(sq)
}

// rank puts a shape queue where its first unit belongs among the ready ones of its node.
func (sq *ShapeQueue) rank() {
	ready := sq.node.shapeQueues
	switch {
	case sq.units.Len() > 0 && !sq.parked:
		if sq.position < 0 {
			ready.Push(sq)
		} else {
			ready.Fix(sq.position)
		}
	case sq.position >= 0:
		ready.Remove(sq.position)
	default:
		return
	}
	sq.node.propagate()
}

// park takes a shape queue out of the order until it is woken. checked is what is known not to help it.
func (s *shapeQueues) park(sq *ShapeQueue, checked Version) {
	sq.checked = checked
	if sq.parked {
		return
	}
	s.readyUnits -= sq.units.Len()
	s.parkedUnits += sq.units.Len()
	sq.parked, sq.parkedIndex = true, len(s.parked)
	s.parked = append(s.parked, sq)
	sq.rank()
}

// wake makes a parked shape queue ready again.
func (s *shapeQueues) wake(sq *ShapeQueue) {
	if sq == nil || !sq.parked {
		return
	}
	s.unlistParked(sq)
	s.parkedUnits -= sq.units.Len()
	s.readyUnits += sq.units.Len()
	sq.rank()
}

// unlistParked takes a shape queue off the list of parked ones.
func (s *shapeQueues) unlistParked(sq *ShapeQueue) {
	end := len(s.parked) - 1
	last := s.parked[end]
	s.parked[sq.parkedIndex], last.parkedIndex = last, sq.parkedIndex
	s.parked[end] = nil
	s.parked, sq.parked = s.parked[:end], false
}

// eachParked calls visit for each parked shape queue, and wakes it if visit says so.
func (s *shapeQueues) eachParked(visit func(sq *ShapeQueue, checked Version) (Version, bool)) {
	for _, sq := range slices.Backward(s.parked) { // for waking a shape queue moves the last one to its place
		checked, wake := visit(sq, sq.checked)
		sq.checked = checked
		if wake {
			s.wake(sq)
		}
	}
}

// measure computes again which part of the cluster's capacity each shape asks for.
func (s *shapeQueues) measure(capacity []int64) {
	s.shapes.each(func(shape *Shape) { shape.measure(capacity) })
}

// beginRebuild forgets all shape queues, before their units go to new ones in a new tree.
func (s *shapeQueues) beginRebuild(capacity []int64) {
	s.shapes.each(func(shape *Shape) {
		shape.shapeQueues = 0
		shape.measure(capacity)
	})
	for _, sq := range s.parked {
		sq.parked = false
		sq.wasParked = true
	}
	clear(s.parked)
	s.parked = s.parked[:0]
	s.idle, s.readyUnits, s.parkedUnits = idleList{}, 0, 0
}

// endRebuild parks those of the new shape queues whose units were all parked before.
func (s *shapeQueues) endRebuild(filled []*ShapeQueue) {
	for _, sq := range filled {
		if sq.wasParked && !sq.wasReady {
			s.park(sq, sq.checked)
		}
		sq.wasParked, sq.wasReady, sq.listed = false, false, false
	}
	s.shapes.each(func(shape *Shape) {
		if shape.shapeQueues == 0 {
			s.shapes.forget(shape)
		}
	})
}

// maxIdleShapeQueues bounds the shape queues that are kept without units, so that a shape that comes and goes costs no allocation.
const maxIdleShapeQueues = 1024

// use takes a shape queue off the list of idle ones.
func (s *shapeQueues) use(sq *ShapeQueue) {
	if sq.idle {
		s.idle.remove(sq)
	}
}

// retireIfEmpty lists a shape queue as idle if no unit waits in it, and forgets the oldest idle one if there are too many.
func (s *shapeQueues) retireIfEmpty(sq *ShapeQueue) {
	if sq.idle || sq.units.Len() > 0 || sq.blocked != nil {
		return
	}
	s.idle.add(sq)
	if s.idle.len > maxIdleShapeQueues {
		s.forget(s.idle.first)
	}
}

// forget drops an idle shape queue, and with the last of a shape the shape.
func (s *shapeQueues) forget(sq *ShapeQueue) {
	s.idle.remove(sq)
	if sq.Shape.Class != nil {
		delete(sq.node.singles, sq.Shape.Class)
	} else {
		delete(sq.node.gangs, sq.Shape)
	}
	sq.Shape.shapeQueues--
	if sq.Shape.shapeQueues == 0 {
		s.shapes.forget(sq.Shape)
	}
}

// idleList is the shape queues in which no unit waits, the one that is idle for longest first.
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
