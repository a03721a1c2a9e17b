package queue

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

// Line is the units of one shape in one queue (where namespaces share it fairly: of one namespace in it). They are interchangeable for
// placement, so they sleep and wake together.
type Line struct {
	// Shape of all its units.
	Shape *Shape

	node     *node
	units    *heap.Heap[*Unit]
	jam      *jam // of those for which a limit leaves no room, nil for none
	position int  // in the node's heap, -1 when parked or empty
	parked   bool
	bed      int  // while parked: where it stands among those that are
	seen     Seen // while parked: what is known not to help

	idle           bool // nobody waits in it
	earlier, later *Line
	// While the tree is planted: how its units came, and that some have.
	slept, woke, moved bool
}

// Queue is the queue that the units wait in.
func (l *Line) Queue() *cluster.Queue { return l.node.queue }

// Tenant is the namespace of all its units where namespaces share the queue fairly, else empty.
func (l *Line) Tenant() string {
	if l.node.parent != nil && l.node.parent.tenants != nil {
		return l.node.name
	}
	return ""
}

// Len is the number of units that are ready, or sleep because the line does.
func (l *Line) Len() int { return l.units.Len() }

// Parked reports whether the line sleeps.
func (l *Line) Parked() bool { return l.parked }

// maxIdleLines bounds the lines that are kept though nobody waits in them, so that a shape that comes and goes costs no allocation.
const maxIdleLines = 1024

// idleLines is the lines that nobody waits in, the one that is idle for longest first.
type idleLines struct {
	first, last *Line
	len         int
}

func (list *idleLines) add(l *Line) {
	l.idle, l.earlier, l.later = true, list.last, nil
	if list.last != nil {
		list.last.later = l
	} else {
		list.first = l
	}
	list.last = l
	list.len++
}

func (list *idleLines) remove(l *Line) {
	if l.earlier != nil {
		l.earlier.later = l.later
	} else {
		list.first = l.later
	}
	if l.later != nil {
		l.later.earlier = l.earlier
	} else {
		list.last = l.earlier
	}
	l.idle, l.earlier, l.later = false, nil, nil
	list.len--
}

// line returns the line of a unit in a node, and makes it if there is none.
func (q *Queue) lineFor(u *Unit, n *node) *Line {
	if u.gang == nil {
		if l := n.singles[u.Class]; l != nil {
			return l
		}
	}
	shape, fresh := q.shapes.of(u)
	if u.gang != nil {
		if l := n.gangs[shape]; l != nil {
			return l
		}
	}
	if fresh {
		shape.measure(q.capacity)
	}
	l := &Line{Shape: shape, node: n, units: heap.New(n.policy.units, setUnit), position: -1}
	shape.lines++
	if u.gang == nil {
		n.singles[u.Class] = l
	} else {
		n.gangs[shape] = l
	}
	q.idle.add(l)
	return l
}

func setUnit(u *Unit, i int) { u.position = i }
func setLine(l *Line, i int) { l.position = i }
func setNode(n *node, i int) { n.position = i }

// rest takes note that a line may have become idle, and forgets the oldest idle one if there are too many.
func (q *Queue) rest(l *Line) {
	if l.idle || l.units.Len() > 0 || l.jam != nil {
		return
	}
	q.idle.add(l)
	if q.idle.len > maxIdleLines {
		q.forget(q.idle.first)
	}
}

// forget drops an idle line.
func (q *Queue) forget(l *Line) {
	q.idle.remove(l)
	if l.Shape.Class != nil {
		delete(l.node.singles, l.Shape.Class)
	} else {
		delete(l.node.gangs, l.Shape)
	}
	q.release(l.Shape)
}

func (q *Queue) release(shape *Shape) {
	shape.lines--
	if shape.lines == 0 {
		q.shapes.forget(shape)
	}
}

// enter puts a unit into its line.
func (q *Queue) enter(u *Unit) (parked bool) {
	l := q.lineOf(u)
	u.at, u.line, u.Shape = inLine, l, l.Shape
	if l.idle {
		q.idle.remove(l)
	}
	l.units.Push(u)
	if l.parked {
		q.sleeping++
		return true
	}
	q.active++
	q.rank(l)
	return false
}

// lineOf returns the line that a unit waits in when it is ready, and makes it if there is none.
func (q *Queue) lineOf(u *Unit) *Line { return q.lineFor(u, q.seat(u)) }

// leave takes a unit out of its line.
func (q *Queue) leave(u *Unit) {
	l := u.line
	if l.parked {
		q.sleeping--
	} else {
		q.active--
	}
	l.units.Remove(u.position)
	u.at = out
	if l.units.Len() == 0 && l.parked {
		q.rouse(l)
	}
	q.rank(l)
	q.rest(l)
}

// rank puts a line where its first unit belongs among the ready ones.
func (q *Queue) rank(l *Line) {
	lines := l.node.lines
	switch {
	case l.units.Len() > 0 && !l.parked:
		if l.position < 0 {
			lines.Push(l)
		} else {
			lines.Fix(l.position)
		}
	case l.position >= 0:
		lines.Remove(l.position)
	default:
		return
	}
	l.node.climb()
}

// park puts a line to sleep.
func (q *Queue) park(l *Line, seen Seen) {
	l.seen = seen
	if l.parked {
		return
	}
	q.active -= l.units.Len()
	q.sleeping += l.units.Len()
	l.parked, l.bed = true, len(q.parked)
	q.parked = append(q.parked, l)
	q.rank(l)
}

// Wake makes a parked line ready again.
func (q *Queue) Wake(l *Line) {
	if l == nil || !l.parked {
		return
	}
	q.rouse(l)
	q.sleeping -= l.units.Len()
	q.active += l.units.Len()
	q.rank(l)
}

// rouse strikes a line off the list of those that are parked.
func (q *Queue) rouse(l *Line) {
	end := len(q.parked) - 1
	last := q.parked[end]
	q.parked[l.bed], last.bed = last, l.bed
	q.parked[end] = nil
	q.parked, l.parked = q.parked[:end], false
}
