// Package heap is a binary heap whose items know their positions, so that any of them can be moved or removed in O(log n).
//
// Example: timers of gangs, ordered by when they are due. A gang's timer changes, or the gang is deleted:
//
//	timers := heap.New(func(a, b *timer) bool { return a.due.Before(b.due) }, func(t *timer, i int) { t.position = i })
//	timers.Push(t)
//	t.due = later
//	timers.Fix(t.position)    // it is where its new time puts it
//	timers.Remove(t.position)
//
// Invariants: the first item is less than or equal to all others; after every operation, move has been called with the position of each
// item that changed place, and with -1 for each that left.
//
// Unlike container/heap it is generic and keeps the positions itself. It is not safe for concurrent use.
package heap

// Heap is ordered by less. The zero value is not usable; call New.
type Heap[T any] struct {
	items []T
	less  func(a, b T) bool
	move  func(item T, position int)
}

// New returns an empty Heap. move is told the position of an item whenever it changes; it may be nil.
func New[T any](less func(a, b T) bool, move func(item T, position int)) *Heap[T] {
	if move == nil {
		move = func(T, int) {}
	}
	return &Heap[T]{less: less, move: move}
}

// Len is the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// First returns the least item; the heap must not be empty.
func (h *Heap[T]) First() T { return h.items[0] }

// At returns the item at a position. Positions are not in order, except that the first is the least.
func (h *Heap[T]) At(i int) T { return h.items[i] }

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items) - 1)
}

// Pop removes the least item and returns it; the heap must not be empty.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove takes out the item at a position.
func (h *Heap[T]) Remove(i int) T {
	item := h.items[i]
	last := len(h.items) - 1
	h.items[i] = h.items[last]
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	if i < last {
		h.Fix(i)
	}
	h.move(item, -1)
	return item
}

// Fix restores the order after the item at a position has changed its rank.
func (h *Heap[T]) Fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *Heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			break
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		h.move(h.items[i], i)
		i = parent
	}
	h.move(h.items[i], i)
}

func (h *Heap[T]) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], h.items[i]) {
			break
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		h.move(h.items[i], i)
		i, moved = child, true
	}
	h.move(h.items[i], i)
	return moved
}
