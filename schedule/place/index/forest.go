package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
)

// forest has a tree for each node class. It serves pods of all sizes, because a tree depends on the nodes alone. It follows the snapshot's log from its own
// cursor.
type forest struct {
	dense      *denseColumn
	trees      []tree // by node class
	keys       []uint64
	pageOf     []int32 // by slot, noPage where it is in no tree: no pod may go there
	treeOf     []int32 // by slot
	cursor     changes.Revision
	generation uint64
	numbered   uint64 // the numbering of GPU states that the boxes have
}

// follow brings the forest to the snapshot's newest change. The columns and the node classes must be there already.
func (f *forest) follow(ix *Index) {
	s := &ix.snapshot.State
	log := s.Log()
	f.dense = &ix.dense
	if f.generation != ix.nodeClasses.generation || f.numbered != f.dense.numbered || !log.Covers(f.cursor) || log.Len()-f.cursor > changes.Revision(s.Slots()/4) {
		f.build(ix)
		return
	}
	f.grow(s.Slots())
	ix.eachChanged(f.cursor, func(slot cluster.Slot) { f.update(ix, slot) })
	f.cursor = log.Len()
}

func (f *forest) grow(slots int) {
	for len(f.keys) < slots {
		f.keys, f.pageOf, f.treeOf = append(f.keys, 0), append(f.pageOf, noPage), append(f.treeOf, NoGroup)
	}
}

func (f *forest) build(ix *Index) {
	s := &ix.snapshot.State
	f.grow(s.Slots())
	in := make([][]int32, len(ix.nodeClasses.classes))
	for i := range s.Slots() {
		group := ix.nodeClasses.of[i]
		f.pageOf[i], f.treeOf[i] = noPage, group
		if group != NoGroup && f.dense.rows[i].IsOpen() {
			f.keys[i] = f.dense.rows[i].CurveKey(f.dense.ties[i])
			in[group] = append(in[group], int32(i))
		}
	}
	for len(f.trees) < len(in) {
		f.trees = append(f.trees, tree{})
	}
	f.trees = f.trees[:len(in)]
	for group := range in {
		f.buildTree(&f.trees[group], in[group])
	}
	f.generation, f.numbered, f.cursor = ix.nodeClasses.generation, f.dense.numbered, s.Log().Len()
}

// tree returns the tree of a node class, which may be new.
func (f *forest) tree(group int32) *tree {
	for len(f.trees) <= int(group) {
		f.trees = append(f.trees, tree{})
		f.buildTree(&f.trees[len(f.trees)-1], nil)
	}
	return &f.trees[group]
}

// update puts a slot where it belongs now, and computes the boxes above it.
func (f *forest) update(ix *Index, slot cluster.Slot) {
	group, row := ix.nodeClasses.of[slot], &f.dense.rows[slot]
	open := group != NoGroup && row.IsOpen()
	var key uint64
	if open {
		key = row.CurveKey(f.dense.ties[slot])
	}
	if page := f.pageOf[slot]; page != noPage {
		t := &f.trees[f.treeOf[slot]]
		if p := &t.pages[page]; open && group == f.treeOf[slot] && p.holds(key) {
			f.keys[slot] = key
			f.remeasure(t, page)
			return
		}
		f.remove(t, slot)
	}
	if f.treeOf[slot] = group; !open {
		return
	}
	f.keys[slot] = key
	t := f.tree(group)
	f.insert(t, slot)
	if t.leaves > 8+t.nodes/minFill {
		f.rebuildTree(t)
	}
}

// rebuildTree builds a tree again from the nodes that it has.
func (f *forest) rebuildTree(t *tree) {
	slots := make([]int32, 0, t.nodes)
	for i := range t.pages {
		if t.pages[i].leaf {
			slots = append(slots, t.pages[i].children...)
		}
	}
	f.buildTree(t, slots)
}
