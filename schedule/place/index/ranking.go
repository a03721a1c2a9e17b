package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// ranking keeps, for pods of one size, every node that passes the local filters: one heap for each node class, ordered by local score. All
// classes whose pods have the size share it, because workloads are many and sizes are few: of the 8,152 tasks of the openb trace, 99 in a
// hundred have one of 60 sizes. It follows the snapshot's log from its own cursor.
//
// Example: pods of 2 CPUs on nodes of three node classes. A class of pods that may use two of them takes the better of two heads of heaps.
type ranking struct {
	nodeHeaps
	class      *cluster.Class // any class of the size
	key        string
	cursor     changes.Revision
	generation uint64 // of the node classes that the heaps are of
	priceList  uint64 // the price list that the keys are by
	lastUsed   uint64
}

// SharesRanking reports whether the place of the class's pods depends on nothing but their size, the node classes, and a few nodes that are
// exceptions because they run pods of the class already.
func (ix *Index) SharesRanking(c *cluster.Class) bool {
	return ix.onlySoftSpread(c.Constraints) && ix.nodeClasses.distinguish(&ix.snapshot.State, c)
}

// maxHolders is how many nodes may have pods of a class while the class still shares a ranking: each decision evaluates each of these nodes.
const maxHolders = 256

// onlySoftSpread reports whether the constraints are soft spread only, with few holders.
func (ix *Index) onlySoftSpread(c *census.Constraints) bool {
	if c == nil {
		return true
	}
	if !c.OnlySpreadsSoftly() {
		return false
	}
	holders := 0
	for i := range c.Soft {
		if c.Soft[i].Census == census.None {
			holders += len(ix.snapshot.Counts().Holders(c.Soft[i].Tally).Slots())
		}
	}
	return holders <= ix.maxHolders
}

// imagesMatter reports whether the class's images could give any node a score above 0.
func (ix *Index) imagesMatter(c *cluster.Class) bool {
	s := &ix.snapshot.State
	var most float64
	for _, name := range c.Images {
		nodes, size := s.Images().With(name)
		most += float64(float64(size) * (float64(nodes) / float64(max(s.Images().Nodes(), 1))))
	}
	return most >= float64(rules.MinImageBytes)
}

// build evaluates every slot.
func (r *ranking) build(ix *Index) {
	s := &ix.snapshot.State
	r.clear()
	r.grow(s.Slots())
	ix.looked += s.Slots()
	for i := range s.Slots() {
		r.redefine(ix, cluster.Slot(i))
	}
	r.generation, r.cursor, r.priceList = ix.nodeClasses.generation, s.Log().Len(), ix.profile.PriceList()
}

// follow brings the ranking to the snapshot's newest change. The node classes must be there already.
func (r *ranking) follow(ix *Index) {
	s := &ix.snapshot.State
	log := s.Log()
	behind, prices := log.Len()-r.cursor, ix.profile.PriceList()
	if r.generation != ix.nodeClasses.generation || !log.Covers(r.cursor) || behind > changes.Revision(s.Slots()) || prices != r.priceList && r.priceList == 0 {
		r.build(ix) // with the first prices another score takes GPUPacking's place, on nodes without GPUs too
		return
	}
	if behind > 0 {
		r.grow(s.Slots())
		ix.replay(r.cursor, r.class, changes.Redefined, r)
		r.cursor = log.Len()
	}
	if prices != r.priceList {
		r.reprice(ix, r.class)
		r.priceList = prices
	}
}

// changed takes in a slot's newest state.
func (r *ranking) changed(ix *Index, slot cluster.Slot, redefined bool) {
	if redefined {
		r.redefine(ix, slot)
	} else {
		r.update(ix, slot)
	}
}

// redefine evaluates a slot whose node has changed.
func (r *ranking) redefine(ix *Index, slot cluster.Slot) {
	r.remove(slot)
	group := ix.nodeClasses.of[slot]
	r.cells[slot].group = group
	if group != NoGroup {
		r.ensureGroup(group)
		r.update(ix, slot)
	}
}

// update evaluates a slot on which other pods run than before.
func (r *ranking) update(ix *Index, slot cluster.Slot) {
	if r.cells[slot].group == NoGroup {
		return
	}
	s := &ix.snapshot.State
	if s.Node(slot) == nil || !rules.FitsIn(rules.Local, s, slot, r.class) {
		r.remove(slot)
		return
	}
	r.put(slot, ix.key(slot, r.class))
}

func (r *ranking) feasible(_ *Index, group int32) (cluster.Slot, int) {
	if heap := r.heap(group); len(heap) > 0 {
		return heap[0], len(heap)
	}
	return cluster.NoSlot, 0
}

func (r *ranking) sample(ix *Index, group int32) cluster.Slot { return r.bestOrdinary(ix, group) }

func (r *ranking) ordinary(ix *Index, group int32, _ rules.Bar) (slot cluster.Slot, key int64) {
	if slot = r.bestOrdinary(ix, group); slot != cluster.NoSlot {
		key = r.cells[slot].key
	}
	return slot, key
}

func (r *ranking) bound(int32) int64 { return 0 } // each group's best is known at once

func (r *ranking) judge(_ *Index, slot cluster.Slot, _ rules.Bar) (key int64, ok bool) {
	c := &r.cells[slot]
	return c.key, c.position != absent
}

func (r *ranking) groupOf(slot cluster.Slot) int32 { return r.cells[slot].group }

func (r *ranking) heap(group int32) []cluster.Slot {
	if int(group) >= len(r.groups) {
		return nil
	}
	return r.groups[group]
}

// bestOrdinary is the best node of a node class that is no exception, NoSlot if there is none. Where exceptions are on top of the heap it
// looks below them, the best first.
func (r *ranking) bestOrdinary(ix *Index, group int32) cluster.Slot {
	heap := r.heap(group)
	if len(heap) == 0 {
		return cluster.NoSlot
	}
	if len(ix.excepted) == 0 || ix.exceptionIn[heap[0]] != ix.decision {
		return heap[0]
	}
	open := append(ix.positions[:0], 0)
	for len(open) > 0 {
		top := 0
		for i := range open {
			if r.before(heap[open[i]], heap[open[top]]) {
				top = i
			}
		}
		at := open[top]
		if ix.exceptionIn[heap[at]] != ix.decision {
			ix.positions = open
			return heap[at]
		}
		open[top] = open[len(open)-1]
		open = open[:len(open)-1]
		for child := 2*at + 1; child <= 2*at+2 && child < len(heap); child++ {
			open = append(open, child)
		}
	}
	ix.positions = open
	return cluster.NoSlot
}
