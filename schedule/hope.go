package schedule

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/queue"
)

const (
	// fewHopeful is how many lines are woken at once whatever room there is.
	fewHopeful = 16
	// fewSlots is on how many nodes with new room it is worth to ask who comes first.
	fewSlots = 16
)

// hope is those single pods who sleep and for whom there may be room on a few nodes. Were all of them woken at once, a thousand queues would
// fight for what one pod has left: instead they are woken one by one, in the order of the tree, for as long as there is room.
type hope struct {
	lines  []*queue.ShapeQueue
	slots  []cluster.Slot
	plants uint64 // of the tree in which they are lines
	awake  bool   // the latest that was woken has not had its turn
}

func (h *hope) add(slot cluster.Slot) {
	if len(h.slots) <= fewSlots && !slices.Contains(h.slots, slot) {
		h.slots = append(h.slots, slot)
	}
}

// follow gives hope up in a tree that has been planted anew: whoever had some is woken.
func (h *hope) follow(q *queue.Queue) {
	plants := q.TreeGeneration()
	if plants != h.plants && len(h.lines) > 0 {
		q.Parked(func(_ *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) { return seen, true })
		*h = hope{}
	}
	h.plants = plants
}

// encourage wakes the next of those who have hope, when the last has had its turn.
func (s *Scheduler) encourage() {
	h := &s.hope
	if len(h.lines) == 0 || h.awake {
		return
	}
	h.follow(s.queue)
	h.lines = slices.DeleteFunc(h.lines, func(l *queue.ShapeQueue) bool { return !l.Parked() || l.Len() == 0 })
	if len(h.lines) <= fewHopeful || len(h.slots) > fewSlots {
		for _, l := range h.lines {
			s.queue.Wake(l)
		}
		h.lines, h.slots = h.lines[:0], h.slots[:0]
		return
	}
	h.lines = slices.DeleteFunc(h.lines, func(l *queue.ShapeQueue) bool {
		return !slices.ContainsFunc(h.slots, func(slot cluster.Slot) bool { return rules.Fits(&s.store.State, slot, l.Shape.Class) })
	})
	next := s.queue.Next(h.lines)
	if next == nil {
		h.slots = h.slots[:0]
		return
	}
	h.lines = slices.DeleteFunc(h.lines, func(l *queue.ShapeQueue) bool { return l == next })
	s.queue.Wake(next)
	h.awake = true
}
