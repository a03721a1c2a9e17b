package heap

import (
	"testing"

	"pgregory.net/rapid"
)

type item struct{ rank, position int }

// TestAgainstSlice drives random pushes, pops, removals and re-rankings and compares every minimum with a plain scan.
func TestAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := New(func(a, b *item) bool { return a.rank < b.rank }, func(it *item, i int) { it.position = i })
		var all []*item
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op == 0 || len(all) == 0:
				it := &item{rank: rapid.IntRange(0, 20).Draw(t, "rank")}
				all = append(all, it)
				h.Push(it)
			case op == 1:
				it := h.Pop()
				all = remove(all, it)
			case op == 2:
				it := all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
				h.Remove(it.position)
				all = remove(all, it)
			default:
				it := all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
				it.rank = rapid.IntRange(0, 20).Draw(t, "rank")
				h.Fix(it.position)
			}
			check(t, h, all)
		}
	})
}

func check(t *rapid.T, h *Heap[*item], all []*item) {
	if h.Len() != len(all) {
		t.Fatalf("heap holds %d items, want %d", h.Len(), len(all))
	}
	for _, it := range all {
		if h.At(it.position) != it {
			t.Fatalf("item says position %d, another stands there", it.position)
		}
		if it.rank < h.First().rank {
			t.Fatalf("first has rank %d, but there is %d", h.First().rank, it.rank)
		}
	}
}

func remove(all []*item, it *item) []*item {
	if it.position != -1 {
		panic("a removed item was not told so")
	}
	for i := range all {
		if all[i] == it {
			return append(all[:i], all[i+1:]...)
		}
	}
	return all
}
