package queue

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

// jam is the units of a line for which a queue's limit leaves no room. They ask for the same, so when room comes only as many are woken as
// fit, and a thousand that wait do not all get tried for each one that ends. One refusal of a pod speaks for all. It does not for gangs, as
// what is left may be kept for one of them: so the others are tried too, each once.
type jam struct {
	line     *Line
	at       *cluster.Queue
	units    *heap.Heap[*Unit] // that may be woken
	refused  []*Unit           // gangs that were refused as things stand
	eased    uint64            // of at, when it was last looked at
	probes   int               // units that were woken and have not been answered yet
	lapsed   bool              // the room that one of them was woken for may still be there
	position int               // among the jams at the queue
}

// ParkQuota puts a popped unit to sleep until the limit of a queue at or above its own, at, leaves room for it: until it has Eased beyond
// what it was, and the room suffices.
func (q *Queue) ParkQuota(u *Unit, at *cluster.Queue) {
	if !q.holds(u) {
		return
	}
	if u.gang != nil {
		if u.describe(); u.pods() < u.need {
			q.file(u)
			return
		}
	}
	q.answer(u, u.gang != nil)
	l := q.lineOf(u)
	if l.idle {
		q.idle.remove(l)
	}
	j := l.jam
	switch {
	case j == nil:
		j = &jam{line: l, at: at, units: heap.New(l.node.policy.units, setUnit)}
		l.jam = j
		q.jamAt(j, at)
	case j.at != at:
		q.unjam(j)
		q.jamAt(j, at)
	}
	j.eased = at.Eased()
	u.at, u.line, u.Shape = inJam, l, l.Shape
	if u.refused = u.gang != nil; u.refused {
		u.position = len(j.refused)
		j.refused = append(j.refused, u)
	} else {
		j.units.Push(u)
	}
	q.jammed++
}

func (q *Queue) jamAt(j *jam, at *cluster.Queue) {
	j.at, j.position = at, len(q.jams[at])
	q.jams[at] = append(q.jams[at], j)
}

func (q *Queue) unjam(j *jam) {
	list := q.jams[j.at]
	last := list[len(list)-1]
	list[j.position], last.position = last, j.position
	list = slices.Delete(list, len(list)-1, len(list))
	if len(list) == 0 {
		delete(q.jams, j.at)
		return
	}
	q.jams[j.at] = list
}

// escape takes a unit out of its jam.
func (q *Queue) escape(u *Unit) {
	j := u.line.jam
	if u.refused {
		last := j.refused[len(j.refused)-1]
		j.refused[u.position], last.position = last, u.position
		j.refused = slices.Delete(j.refused, len(j.refused)-1, len(j.refused))
	} else {
		j.units.Remove(u.position)
	}
	u.at, u.refused = out, false
	q.jammed--
	if j.len() > 0 {
		return
	}
	j.line.jam = nil
	q.unjam(j)
	q.rest(j.line)
}

func (j *jam) len() int { return j.units.Len() + len(j.refused) }

// each visits all units.
func (j *jam) each(visit func(*Unit)) {
	for i := range j.units.Len() {
		visit(j.units.At(i))
	}
	for _, u := range j.refused {
		visit(u)
	}
}

// answer takes note that what a unit was woken for has been decided. If it lapsed, the room may still be there for others.
func (q *Queue) answer(u *Unit, lapsed bool) {
	j := u.probe
	if j == nil {
		return
	}
	u.probe = nil
	j.probes--
	if lapsed && !j.lapsed && j.units.Len() > 0 {
		j.lapsed = true
		q.lapsed = append(q.lapsed, j)
	}
}

// relieve wakes as many units of a jam as there is room for now, beyond those that have been woken already.
func (q *Queue) relieve(j *jam) {
	eased := j.at.Eased()
	if j.eased == eased && !j.lapsed {
		return
	}
	if j.eased != eased {
		for _, u := range j.refused {
			u.refused = false
			j.units.Push(u)
		}
		j.refused = j.refused[:0]
	}
	j.eased, j.lapsed = eased, false
	for n := room(j.at, j.line.Shape) - int64(j.probes); n > 0 && j.units.Len() > 0; n-- {
		u := j.units.First()
		q.escape(u)
		u.probe = j
		j.probes++
		q.enter(u)
	}
}

func (q *Queue) relieveLapsed() {
	list := q.lapsed
	q.lapsed = nil
	for _, j := range list {
		q.relieve(j)
	}
}

// room is how many units of a shape a queue's limits leave room for, at most.
func room(at *cluster.Queue, shape *Shape) int64 {
	n := int64(math.MaxInt32)
	for _, a := range shape.Ask {
		if limit := at.Limit(a.Kind); limit != cluster.Unlimited {
			n = min(n, max(limit-at.Used(a.Kind), 0)/a.Value)
		}
	}
	return n
}
