package index

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// tree is a Hilbert R-tree of the nodes of one node class (Kamel and Faloutsos, VLDB 1994). A leaf has nodes that are alike, any other page has pages, and
// each page has the box of all nodes in it. Nodes are in the order of a key that follows a Hilbert curve over what is free on them. So the boxes are
// small, and the key of a node says which leaf it belongs to.
//
// Example: a pod asks for 2 CPUs. The root has 5 pages. The search opens the one with the highest bound, then the best page in that, and so on to a leaf of
// 6 nodes. The best of these scores 87, and no other page has a bound of 87 or more. The search computed some 40 bounds and looked at 6 nodes of 20,000.
type tree struct {
	pages  []page
	boxes  []rules.Box // by page: the box of all nodes in it; side by side, because a search reads those of siblings
	root   int32       // a leaf without nodes, if there are none
	leaves int
	nodes  int
}

type page struct {
	parent   int32
	leaf     bool
	children []int32 // slots of a leaf, pages of others
	start    uint64  // the least key that belongs to it; that of a tree's first pages is 0
	until    uint64  // of a leaf: the least key that belongs to the next one
}

// holds reports whether a key belongs to a leaf.
func (p *page) holds(key uint64) bool {
	return p.start <= key && (key < p.until || p.until == lastKey)
}

// The numbers of children of a page. Small pages have small boxes, whose bounds are close to the scores.
const (
	noPage      = int32(-1)
	maxFill     = 8
	initialFill = 6 // of the pages of a tree that is built
	minFill     = 2 // on average, of leaves; with less the tree is built again
	lastKey     = ^uint64(0)
)

// buildTree builds the tree of some slots, which it sorts.
func (f *forest) buildTree(t *tree, slots []int32) {
	t.pages, t.boxes, t.leaves, t.nodes = t.pages[:0], t.boxes[:0], 0, len(slots)
	f.sortByKey(slots)
	var level []int32
	start := uint64(0)
	for {
		end := min(initialFill, len(slots))
		for end < len(slots) && f.keys[slots[end]] == f.keys[slots[end-1]] {
			end++
		}
		until := lastKey
		if end < len(slots) {
			until = f.keys[slots[end]]
		}
		level = append(level, f.addLeaf(t, slots[:end], start, until))
		if slots, start = slots[end:], until; len(slots) == 0 {
			break
		}
	}
	for len(level) > 1 {
		var above []int32
		for children := range slices.Chunk(level, initialFill) {
			above = append(above, t.addParent(children))
		}
		level = above
	}
	t.root = level[0]
}

func (f *forest) sortByKey(slots []int32) {
	slices.SortFunc(slots, func(a, b int32) int { return cmp.Or(cmp.Compare(f.keys[a], f.keys[b]), cmp.Compare(a, b)) })
}

// addLeaf adds a leaf of some slots.
func (f *forest) addLeaf(t *tree, slots []int32, start, until uint64) int32 {
	id := t.add(page{leaf: true, children: slices.Clone(slots), start: start, until: until})
	for _, slot := range slots {
		f.pageOf[slot] = id
	}
	f.measureLeaf(t, id)
	t.leaves++
	return id
}

// addParent adds the page that has some pages as its children.
func (t *tree) addParent(children []int32) int32 {
	id := t.add(page{children: slices.Clone(children), start: t.pages[children[0]].start})
	for _, child := range children {
		t.pages[child].parent = id
	}
	t.measure(id)
	return id
}

func (t *tree) add(p page) int32 {
	p.parent = noPage
	t.pages, t.boxes = append(t.pages, p), append(t.boxes, rules.Box{})
	return int32(len(t.pages) - 1)
}

// measureLeaf computes the box of a leaf.
func (f *forest) measureLeaf(t *tree, id int32) {
	box := &t.boxes[id]
	*box = rules.Box{}
	for _, slot := range t.pages[id].children {
		box.Add(&f.dense.outlines[slot], &f.dense.rows[slot], f.dense.ties[slot])
	}
}

// measure computes the box of a page that is no leaf.
func (t *tree) measure(id int32) {
	box := &t.boxes[id]
	*box = rules.Box{}
	for _, child := range t.pages[id].children {
		box.Merge(&t.boxes[child])
	}
}

// remeasure computes the boxes of a leaf and of the pages above it, as far as they change.
func (f *forest) remeasure(t *tree, leaf int32) {
	old := t.boxes[leaf]
	f.measureLeaf(t, leaf)
	for id := leaf; t.boxes[id] != old; {
		if id = t.pages[id].parent; id == noPage {
			return
		}
		old = t.boxes[id]
		t.measure(id)
	}
}

// leafFor returns the leaf that a key belongs to.
func (t *tree) leafFor(key uint64) int32 {
	id := t.root
	for !t.pages[id].leaf {
		children := t.pages[id].children
		at := len(children) - 1
		for at > 0 && key < t.pages[children[at]].start {
			at--
		}
		id = children[at]
	}
	return id
}

// anySlot returns one of the nodes in a page that has some.
func (t *tree) anySlot(id int32) cluster.Slot {
	for !t.pages[id].leaf {
		for _, child := range t.pages[id].children {
			if t.boxes[child].Nodes() > 0 {
				id = child
				break
			}
		}
	}
	return cluster.Slot(t.pages[id].children[0])
}

// insert puts a slot into the leaf that its key belongs to.
func (f *forest) insert(t *tree, slot cluster.Slot) {
	id := t.leafFor(f.keys[slot])
	p := &t.pages[id]
	p.children = append(p.children, int32(slot))
	f.pageOf[slot] = id
	t.nodes++
	if len(p.children) > maxFill && f.split(t, id) {
		return
	}
	f.remeasure(t, id)
}

// remove takes a slot out of its leaf. A leaf that is left without nodes stays until the tree is built again.
func (f *forest) remove(t *tree, slot cluster.Slot) {
	id := f.pageOf[slot]
	p := &t.pages[id]
	last := len(p.children) - 1
	at := slices.Index(p.children, int32(slot))
	p.children[at] = p.children[last]
	p.children = p.children[:last]
	f.pageOf[slot] = noPage
	t.nodes--
	f.remeasure(t, id)
}

// split divides a full leaf in two, at a key in its middle. It returns false if all its nodes have the same key.
func (f *forest) split(t *tree, id int32) bool {
	slots := t.pages[id].children
	f.sortByKey(slots)
	middle := len(slots) / 2
	for middle < len(slots) && f.keys[slots[middle]] == f.keys[slots[middle-1]] {
		middle++
	}
	if middle == len(slots) {
		for middle = len(slots) / 2; middle > 0 && f.keys[slots[middle]] == f.keys[slots[middle-1]]; {
			middle--
		}
		if middle == 0 {
			return false
		}
	}
	key := f.keys[slots[middle]]
	right := f.addLeaf(t, slots[middle:], key, t.pages[id].until)
	t.pages[id].children, t.pages[id].until = slots[:middle], key
	f.measureLeaf(t, id)
	t.insertAfter(id, right)
	return true
}

// insertAfter makes a new page the next sibling of another one, splits those above that get too full, and computes the boxes above.
func (t *tree) insertAfter(left, right int32) {
	for {
		parent := t.pages[left].parent
		if parent == noPage {
			t.root = t.addParent([]int32{left, right})
			return
		}
		p := &t.pages[parent]
		p.children = slices.Insert(p.children, slices.Index(p.children, left)+1, right)
		t.pages[right].parent = parent
		if len(p.children) <= maxFill {
			for ; parent != noPage; parent = t.pages[parent].parent {
				t.measure(parent)
			}
			return
		}
		children, half := p.children, len(p.children)/2
		p.children = children[:half]
		t.measure(parent)
		left, right = parent, t.addParent(children[half:])
	}
}
