package index

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// tree has the nodes of one node class in pages of nodes that are alike, and these in pages of pages; each page knows the box of all below. It
// is a Hilbert R-tree (Kamel and Faloutsos, VLDB 1994): nodes are in the order of a key that follows a Hilbert curve over what is free, so that a
// page has a small box, and a node whose state changes has one place to go to.
//
// Example: a pod asks for 2 CPUs. The root has 5 pages; the bound of one is the highest, so its pages are looked at, and so on to a leaf of 6 nodes. The
// best of them scores 87, and no other page promises as much: some 40 bounds and 6 nodes were looked at, of 20,000.
type tree struct {
	pages  []page
	boxes  []rules.Box // by page: what bounds all below; side by side, because a search reads those of siblings
	root   int32       // a leaf without nodes, if there are none
	leaves int
	nodes  int
}

type page struct {
	parent int32
	leaf   bool
	below  []int32 // slots of a leaf, pages of others
	start  uint64  // the least key that belongs to it; that of a tree's first pages is 0
	until  uint64  // of a leaf: the least key that belongs to the next one
}

// holds reports whether a key belongs to a leaf.
func (p *page) holds(key uint64) bool {
	return p.start <= key && (key < p.until || p.until == lastKey)
}

// The sizes of pages: small ones, whose boxes are tight.
const (
	noPage   = int32(-1)
	maxBelow = 8
	loaded   = 6 // how full pages are at first
	thinnest = 2 // fewer nodes than that a leaf on the average: the tree is built anew
	lastKey  = ^uint64(0)
)

// load builds the tree of some slots, which it sorts.
func (f *forest) load(t *tree, slots []int32) {
	t.pages, t.boxes, t.leaves, t.nodes = t.pages[:0], t.boxes[:0], 0, len(slots)
	f.sortByKey(slots)
	var level []int32
	start := uint64(0)
	for {
		end := min(loaded, len(slots))
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
		for children := range slices.Chunk(level, loaded) {
			above = append(above, t.addAbove(children))
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
	id := t.add(page{leaf: true, below: slices.Clone(slots), start: start, until: until})
	for _, slot := range slots {
		f.pageOf[slot] = id
	}
	f.measureLeaf(t, id)
	t.leaves++
	return id
}

// addAbove adds the page of some pages.
func (t *tree) addAbove(children []int32) int32 {
	id := t.add(page{below: slices.Clone(children), start: t.pages[children[0]].start})
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

// measureLeaf finds the box of a leaf's nodes.
func (f *forest) measureLeaf(t *tree, id int32) {
	box := &t.boxes[id]
	*box = rules.Box{}
	for _, slot := range t.pages[id].below {
		box.Add(&f.dense.outlines[slot], &f.dense.rows[slot], f.dense.ties[slot])
	}
}

// measure finds the box of a page of pages.
func (t *tree) measure(id int32) {
	box := &t.boxes[id]
	*box = rules.Box{}
	for _, child := range t.pages[id].below {
		box.Merge(&t.boxes[child])
	}
}

// remeasure brings the boxes of a leaf and of those above to its nodes.
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

// leafFor is the leaf that a key belongs to.
func (t *tree) leafFor(key uint64) int32 {
	id := t.root
	for !t.pages[id].leaf {
		below := t.pages[id].below
		at := len(below) - 1
		for at > 0 && key < t.pages[below[at]].start {
			at--
		}
		id = below[at]
	}
	return id
}

// first is a slot of a page that has some.
func (t *tree) first(id int32) cluster.Slot {
	for !t.pages[id].leaf {
		for _, below := range t.pages[id].below {
			if t.boxes[below].Nodes() > 0 {
				id = below
				break
			}
		}
	}
	return cluster.Slot(t.pages[id].below[0])
}

// insert takes in a slot by its key.
func (f *forest) insert(t *tree, slot cluster.Slot) {
	id := t.leafFor(f.keys[slot])
	p := &t.pages[id]
	p.below = append(p.below, int32(slot))
	f.pageOf[slot] = id
	t.nodes++
	if len(p.below) > maxBelow && f.split(t, id) {
		return
	}
	f.remeasure(t, id)
}

// remove takes out a slot. A leaf without nodes stays, until the tree is built anew.
func (f *forest) remove(t *tree, slot cluster.Slot) {
	id := f.pageOf[slot]
	p := &t.pages[id]
	last := len(p.below) - 1
	at := slices.Index(p.below, int32(slot))
	p.below[at] = p.below[last]
	p.below = p.below[:last]
	f.pageOf[slot] = noPage
	t.nodes--
	f.remeasure(t, id)
}

// split divides a full leaf in two, at a key in its middle. It is false when all its nodes have the same key.
func (f *forest) split(t *tree, id int32) bool {
	slots := t.pages[id].below
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
	t.pages[id].below, t.pages[id].until = slots[:middle], key
	f.measureLeaf(t, id)
	t.adopt(id, right)
	return true
}

// adopt puts a new page to the right of another one, and measures those above.
func (t *tree) adopt(left, right int32) {
	for {
		parent := t.pages[left].parent
		if parent == noPage {
			t.root = t.addAbove([]int32{left, right})
			return
		}
		p := &t.pages[parent]
		p.below = slices.Insert(p.below, slices.Index(p.below, left)+1, right)
		t.pages[right].parent = parent
		if len(p.below) <= maxBelow {
			for ; parent != noPage; parent = t.pages[parent].parent {
				t.measure(parent)
			}
			return
		}
		below, half := p.below, len(p.below)/2
		p.below = below[:half]
		t.measure(parent)
		left, right = parent, t.addAbove(below[half:])
	}
}
