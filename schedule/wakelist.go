package schedule

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/queue"
)

const (
	// wakeAllUpTo is the length up to which the whole list is woken at once.
	wakeAllUpTo = 16
	// maxWakeSlots bounds the nodes with new room; with more, the whole list is woken at once.
	maxWakeSlots = 16
)

// wakeList is the shape queues of single pods that sleep and for which a few nodes may have room now. They are woken one by one, in the
// order of the queue tree, for as long as those nodes have room.
//
// Example: 1,000 queues each have a pod that waits for one CPU, and one pod ends. Waking all of them would cost 1,000 decisions for one place.
// The wake list wakes the pod that is next in turn; when it has taken the place, no other is tried.
type wakeList struct {
	queues     []*queue.ShapeQueue
	listed     map[*queue.ShapeQueue]struct{} // what queues has: while no decision may be made, a queue is found again and again
	slots      []cluster.Slot
	generation uint64 // of the tree that has the queues
	deciding   bool   // the latest that was woken has not had its turn
}

// add adds a shape queue, once.
func (w *wakeList) add(sq *queue.ShapeQueue) {
	if _, listed := w.listed[sq]; listed {
		return
	}
	if w.listed == nil {
		w.listed = make(map[*queue.ShapeQueue]struct{})
	}
	w.listed[sq] = struct{}{}
	w.queues = append(w.queues, sq)
}

// drop takes out the shape queues that gone names.
func (w *wakeList) drop(gone func(*queue.ShapeQueue) bool) {
	w.queues = slices.DeleteFunc(w.queues, func(sq *queue.ShapeQueue) bool {
		if !gone(sq) {
			return false
		}
		delete(w.listed, sq)
		return true
	})
}

// addSlot adds a node with new room.
func (w *wakeList) addSlot(slot cluster.Slot) {
	if len(w.slots) <= maxWakeSlots && !slices.Contains(w.slots, slot) {
		w.slots = append(w.slots, slot)
	}
}

// checkTree empties the list when the tree was rebuilt, because it has other shape queues then: everything that sleeps is woken.
func (w *wakeList) checkTree(q *queue.Queue) {
	generation := q.TreeGeneration()
	if generation != w.generation && len(w.queues) > 0 {
		q.Parked(func(_ *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) { return seen, true })
		*w = wakeList{}
	}
	w.generation = generation
}

// wakeNext wakes the next shape queue of the list, once the last one woken has been decided.
func (w *wakeList) wakeNext(q *queue.Queue, state *cluster.State) {
	if len(w.queues) == 0 || w.deciding {
		return
	}
	w.checkTree(q)
	w.drop(func(sq *queue.ShapeQueue) bool { return !sq.Parked() || sq.Len() == 0 })
	if len(w.queues) <= wakeAllUpTo || len(w.slots) > maxWakeSlots {
		for _, sq := range w.queues {
			q.Wake(sq)
		}
		w.queues, w.slots = w.queues[:0], w.slots[:0]
		clear(w.listed)
		return
	}
	w.drop(func(sq *queue.ShapeQueue) bool {
		return !slices.ContainsFunc(w.slots, func(slot cluster.Slot) bool { return rules.Fits(state, slot, sq.Shape.Class) })
	})
	next := q.Next(w.queues)
	if next == nil {
		w.slots = w.slots[:0]
		return
	}
	w.drop(func(sq *queue.ShapeQueue) bool { return sq == next })
	q.Wake(next)
	w.deciding = true
}
