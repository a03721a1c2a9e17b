package index

import "hilbert.dev/hilbert/cluster"

// nodeHeaps orders nodes within groups: the best of each group is at hand, and a change of one node costs O(log nodes).
//
// What is known of a slot stands together in 16 bytes, because following a change is a walk through memory that no cache holds.
type nodeHeaps struct {
	cells  []cell           // by slot
	groups [][]cluster.Slot // by group: a heap, the greatest key first
}

// cell is what a heap knows of a slot: its group (NoGroup when a static filter refuses it), its position in the group's heap (absent when
// another filter refuses it), and its key: local score above, hash of the node's name below, so that one comparison orders by score and
// then by the seeded tie-break.
type cell struct {
	key             int64
	group, position int32
}

const (
	NoGroup = int32(-1)
	absent  = int32(-1)
	// tieBits of the key hold the tie-break, the rest the local score.
	tieBits = 32
)

// clear forgets all slots and groups, and keeps the memory.
func (h *nodeHeaps) clear() {
	h.cells = h.cells[:0]
	h.groups = h.groups[:0]
}

func (h *nodeHeaps) grow(slots int) {
	for len(h.cells) < slots {
		h.cells = append(h.cells, cell{group: NoGroup, position: absent})
	}
}

// ensureGroup makes a group exist.
func (h *nodeHeaps) ensureGroup(id int32) {
	for len(h.groups) <= int(id) {
		if len(h.groups) < cap(h.groups) {
			h.groups = h.groups[:len(h.groups)+1]
			h.groups[len(h.groups)-1] = h.groups[len(h.groups)-1][:0]
		} else {
			h.groups = append(h.groups, nil)
		}
	}
}

// put gives a slot of a group a key, and a place in the heap if it has none.
func (h *nodeHeaps) put(slot cluster.Slot, key int64) {
	c := &h.cells[slot]
	old := c.key
	c.key = key
	switch {
	case c.position == absent:
		g := append(h.groups[c.group], slot)
		h.groups[c.group] = g
		h.up(g, len(g)-1)
	case key > old:
		h.up(h.groups[c.group], int(c.position))
	case key < old:
		h.down(h.groups[c.group], int(c.position))
	}
}

// move puts a slot into another group with the key that it has.
func (h *nodeHeaps) move(slot cluster.Slot, group int32) {
	present := h.cells[slot].position != absent
	h.remove(slot)
	h.cells[slot].group = group
	if present {
		h.put(slot, h.cells[slot].key)
	}
}

// remove takes a slot out of its group's heap, if it is there.
func (h *nodeHeaps) remove(slot cluster.Slot) {
	c := &h.cells[slot]
	at := int(c.position)
	if c.position == absent {
		return
	}
	c.position = absent
	g := h.groups[c.group]
	last := len(g) - 1
	moved := g[last]
	g = g[:last]
	h.groups[c.group] = g
	if at == last {
		return
	}
	g[at] = moved
	h.cells[moved].position = int32(at)
	h.down(g, at)
	h.up(g, int(h.cells[moved].position))
}

func (h *nodeHeaps) before(a, b cluster.Slot) bool {
	return h.cells[a].key > h.cells[b].key || (h.cells[a].key == h.cells[b].key && a < b)
}

func (h *nodeHeaps) up(g []cluster.Slot, i int) {
	slot := g[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(slot, g[parent]) {
			break
		}
		g[i] = g[parent]
		h.cells[g[i]].position = int32(i)
		i = parent
	}
	g[i] = slot
	h.cells[slot].position = int32(i)
}

func (h *nodeHeaps) down(g []cluster.Slot, i int) {
	slot := g[i]
	for {
		child := 2*i + 1
		if child >= len(g) {
			break
		}
		if right := child + 1; right < len(g) && h.before(g[right], g[child]) {
			child = right
		}
		if !h.before(g[child], slot) {
			break
		}
		g[i] = g[child]
		h.cells[g[i]].position = int32(i)
		i = child
	}
	g[i] = slot
	h.cells[slot].position = int32(i)
}

// reprice evaluates the nodes with GPUs again, after their prices have changed, and the others where they have prices too.
func (h *nodeHeaps) reprice(ix *Index, c *cluster.Class) {
	s, hosts := &ix.snapshot.State, ix.profile.PricesHosts(c)
	for i := range h.cells {
		if slot := cluster.Slot(i); h.cells[i].position != absent && (hosts || s.HasGPUs(slot)) {
			h.cells[i].key = ix.key(slot, c)
		}
	}
	for _, g := range h.groups {
		for i := len(g)/2 - 1; i >= 0; i-- {
			h.down(g, i)
		}
	}
}

// key is what a heap orders a node by.
func (ix *Index) key(slot cluster.Slot, c *cluster.Class) int64 {
	return ix.profile.LocalScore(&ix.snapshot.State, slot, c)<<tieBits | int64(ix.Tie(slot))
}
