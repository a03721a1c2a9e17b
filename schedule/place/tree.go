package place

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
)

// tree finds, among nodes of one atom, the best for any class that asks for cpu, memory and a pod's place only: a kd-tree over what a
// node's local scores and filters read, with the bounding box of each subtree. A search descends where the bound on the score is best and
// leaves out what cannot win, so all classes share one tree, and a change of a node costs O(log nodes) once.
//
// Invariants: every box covers the points of its slots; a leaf's slots are where descend leads from the root.
type tree struct {
	nodes []treeNode
	free  []int32
	root  int32
	moves int // since the tree was built
}

// maxLeaf is how many slots a leaf holds before it is split.
const maxLeaf = 12

type treeNode struct {
	box    box
	parent int32
	left   int32 // noNode in a leaf
	right  int32
	split  float64
	axis   axis
	slots  []cluster.Slot
}

const noNode = int32(-1)

// axis is one coordinate of a point.
type axis uint8

const (
	axisCPU       axis = iota // requested share of cpu, as scores count it
	axisMemory                // the same for memory
	axisInvCPU                // 1/allocatable cpu, so that a request's share of it is a product
	axisInvMemory             // 1/allocatable memory
	axisTie                   // the tie-break
	axisSkew                  // requested share of cpu minus that of memory
	axisFreeCPU
	axisFreeMemory
	axisFreePods
	axisFreeGPU // in thousandths, over all GPUs
	axisNoGPU   // 1 for a machine without GPUs
	axes
	splitAxes = axisTie + 1 // only these are split on
)

// axisScale is how many points of score one unit of an axis is worth, roughly: the axis that spreads most in points is split.
var axisScale = [splitAxes]float64{50, 50, 50 * 2000, 50 * (8 << 30), 1e-12}

type point [axes]float64

type box struct{ lo, hi point }

func emptyBox() box {
	var b box
	for i := range b.lo {
		b.lo[i], b.hi[i] = math.Inf(1), math.Inf(-1)
	}
	return b
}

func (b *box) add(p *point) {
	for i := range p {
		if p[i] < b.lo[i] {
			b.lo[i] = p[i]
		}
		if p[i] > b.hi[i] {
			b.hi[i] = p[i]
		}
	}
}

func (b *box) union(o *box) {
	for i := range o.lo {
		if o.lo[i] < b.lo[i] {
			b.lo[i] = o.lo[i]
		}
		if o.hi[i] > b.hi[i] {
			b.hi[i] = o.hi[i]
		}
	}
}

// build makes the tree anew from its slots.
func (t *tree) build(slots []cluster.Slot, f *forest) {
	for i := range t.nodes {
		t.nodes[i].slots = t.nodes[i].slots[:0]
	}
	t.nodes, t.free, t.moves = t.nodes[:0], t.free[:0], 0
	t.root = t.grow(slots, noNode, f)
}

// grow makes a subtree of the slots.
func (t *tree) grow(slots []cluster.Slot, parent int32, f *forest) int32 {
	id := t.node(parent)
	b := emptyBox()
	for _, slot := range slots {
		b.add(&f.points[slot])
	}
	t.nodes[id].box = b
	if len(slots) <= maxLeaf {
		t.fill(id, slots, f)
		return id
	}
	axis, split := divide(&b, slots, f)
	middle := partition(slots, axis, split, f)
	if middle == 0 || middle == len(slots) { // points that nothing tells apart
		t.fill(id, slots, f)
		return id
	}
	t.nodes[id].axis, t.nodes[id].split = axis, split
	left := t.grow(slots[:middle], id, f)
	right := t.grow(slots[middle:], id, f)
	t.nodes[id].left, t.nodes[id].right = left, right
	return id
}

func (t *tree) node(parent int32) int32 {
	id := int32(len(t.nodes))
	if len(t.nodes) < cap(t.nodes) {
		t.nodes = t.nodes[:id+1]
	} else {
		t.nodes = append(t.nodes, treeNode{})
	}
	n := &t.nodes[id]
	n.parent, n.left, n.right, n.slots = parent, noNode, noNode, n.slots[:0]
	return id
}

func (t *tree) fill(id int32, slots []cluster.Slot, f *forest) {
	t.nodes[id].slots = append(t.nodes[id].slots[:0], slots...)
	for _, slot := range slots {
		f.leaf[slot] = id
	}
}

// divide chooses the axis on which the points spread most, and the middle of a few of them.
func divide(b *box, slots []cluster.Slot, f *forest) (axis, float64) {
	widest, most := axisCPU, -1.0
	for a := range splitAxes {
		if spread := (b.hi[a] - b.lo[a]) * axisScale[a]; spread > most {
			widest, most = a, spread
		}
	}
	var sample [9]float64
	step := max(len(slots)/len(sample), 1)
	n := 0
	for i := 0; i < len(slots) && n < len(sample); i += step {
		sample[n] = f.points[slots[i]][widest]
		n++
	}
	slices.Sort(sample[:n])
	split := sample[n/2]
	if split <= b.lo[widest] { // "less than" must leave something on the left
		split = (b.lo[widest] + b.hi[widest]) / 2
	}
	return widest, split
}

// partition moves the slots below the split to the front and returns how many they are.
func partition(slots []cluster.Slot, axis axis, split float64, f *forest) int {
	middle := 0
	for i, slot := range slots {
		if f.points[slot][axis] < split {
			slots[i], slots[middle] = slots[middle], slots[i]
			middle++
		}
	}
	return middle
}

// descend returns the leaf that a point belongs to.
func (t *tree) descend(p *point) int32 {
	id := t.root
	for {
		n := &t.nodes[id]
		if n.left == noNode {
			return id
		}
		if p[n.axis] < n.split {
			id = n.left
		} else {
			id = n.right
		}
	}
}

// insert adds a slot whose point is set.
func (t *tree) insert(slot cluster.Slot, f *forest) {
	if len(t.nodes) == 0 {
		t.build([]cluster.Slot{slot}, f)
		return
	}
	t.settle(slot, t.descend(&f.points[slot]), f)
}

func (t *tree) settle(slot cluster.Slot, id int32, f *forest) {
	n := &t.nodes[id]
	n.slots = append(n.slots, slot)
	f.leaf[slot] = id
	if len(n.slots) <= maxLeaf {
		for ; id != noNode; id = t.nodes[id].parent {
			t.nodes[id].box.add(&f.points[slot])
		}
		return
	}
	t.split(id, f)
	t.refresh(t.nodes[id].parent, f)
}

// split divides a leaf that is too full, if its points can be told apart.
func (t *tree) split(id int32, f *forest) {
	t.shrink(id, f)
	slots := slices.Clone(t.nodes[id].slots)
	axis, split := divide(&t.nodes[id].box, slots, f)
	middle := partition(slots, axis, split, f)
	if middle == 0 || middle == len(slots) {
		return
	}
	left, right := t.node(id), t.node(id)
	for _, half := range []struct {
		id    int32
		slots []cluster.Slot
	}{{left, slots[:middle]}, {right, slots[middle:]}} {
		t.fill(half.id, half.slots, f)
		t.shrink(half.id, f)
	}
	n := &t.nodes[id]
	n.axis, n.split, n.left, n.right, n.slots = axis, split, left, right, n.slots[:0]
}

// remove takes a slot out. Its point is still the one with which it went in.
func (t *tree) remove(slot cluster.Slot, f *forest) {
	id := f.leaf[slot]
	n := &t.nodes[id]
	at := slices.Index(n.slots, slot)
	last := len(n.slots) - 1
	n.slots[at] = n.slots[last]
	n.slots = n.slots[:last]
	t.refresh(id, f)
}

// move takes in a new point of a slot.
func (t *tree) move(slot cluster.Slot, p *point, f *forest) {
	t.moves++
	from := f.leaf[slot]
	f.points[slot] = *p
	to := t.descend(p)
	if to == from {
		t.refresh(from, f)
		return
	}
	t.remove(slot, f)
	t.settle(slot, to, f)
}

// shrink makes a node's box fit.
func (t *tree) shrink(id int32, f *forest) {
	n := &t.nodes[id]
	n.box = emptyBox()
	if n.left == noNode {
		for _, slot := range n.slots {
			n.box.add(&f.points[slot])
		}
		return
	}
	n.box = t.nodes[n.left].box
	n.box.union(&t.nodes[n.right].box)
}

// refresh makes the boxes fit from a node up, as far as they change.
func (t *tree) refresh(id int32, f *forest) {
	for ; id != noNode; id = t.nodes[id].parent {
		before := t.nodes[id].box
		t.shrink(id, f)
		if t.nodes[id].box == before {
			return
		}
	}
}
