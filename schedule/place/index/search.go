package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// search finds the best node for one decision in the forest, by branch and bound in the tree of each group.
type search struct {
	query
	forest forest
	own    bool          // the groups are those of an ownSelection, whose nodes are in all trees
	stack  []boundedPage // scratch of descend
}

// boundedPage is a page with the score and tie that no node in it exceeds.
type boundedPage struct {
	page  int32
	bound rules.Bar
}

// start begins a decision.
func (x *search) start(ix *Index, c *cluster.Class, scorer *rules.DenseScorer, v *selection) {
	ix.dense.follow(ix)
	x.forest.follow(ix)
	x.begin(c, scorer, v, ix.nodeClasses.of)
	x.own = false
}

// startOwn begins a decision for a class with a selection of its own.
func (x *search) startOwn(ix *Index, c *cluster.Class, scorer *rules.DenseScorer, v *ownSelection) {
	x.start(ix, c, scorer, &v.selection)
	x.of, x.own = v.of, true
}

// trees are those that have nodes of a group.
func (x *search) trees(group int32) []tree {
	if x.own {
		return x.forest.trees
	}
	x.forest.tree(group)
	return x.forest.trees[group : group+1]
}

func (x *search) feasible(ix *Index, group int32) (cluster.Slot, int) {
	if x.soft {
		tree := x.forest.tree(group)
		return x.count(ix, tree, tree.root)
	}
	slot := x.sample(ix, group)
	if slot == cluster.NoSlot {
		return slot, 0
	}
	return slot, 1
}

func (x *search) bound(group int32) int64 {
	if x.own {
		return 0 // all groups are in all trees
	}
	tree := x.forest.tree(group)
	if bound := x.scorer.BoxBound(&tree.boxes[tree.root]); bound < rules.Unbounded {
		return bound
	}
	return 0
}

// count returns the number of feasible nodes in a page, and one of them. Where the columns answer for all filters, it does not look at the nodes of a
// page on which all fit.
func (x *search) count(ix *Index, tree *tree, id int32) (sample cluster.Slot, feasible int) {
	p, box := &tree.pages[id], &tree.boxes[id]
	switch {
	case !x.scorer.FitSome(box):
		return cluster.NoSlot, 0
	case !x.domain && x.scorer.CanFilterAll(box) && x.scorer.FitAll(box):
		return tree.anySlot(id), box.Nodes()
	}
	sample = cluster.NoSlot
	for _, child := range p.children {
		one, n := cluster.Slot(child), 0
		if !p.leaf {
			one, n = x.count(ix, tree, child)
		} else if x.admits(ix, one) {
			n = 1
		}
		if n > 0 {
			sample, feasible = one, feasible+n
		}
	}
	return sample, feasible
}

func (x *search) sample(ix *Index, group int32) cluster.Slot {
	trees := x.trees(group)
	for i := range trees {
		if slot := x.find(ix, &trees[i], trees[i].root, group); slot != cluster.NoSlot {
			return slot
		}
	}
	return cluster.NoSlot
}

// find returns a feasible node of a group in a page that is no exception, NoSlot if there is none.
func (x *search) find(ix *Index, tree *tree, id, group int32) cluster.Slot {
	p := &tree.pages[id]
	if !x.scorer.FitSome(&tree.boxes[id]) {
		return cluster.NoSlot
	}
	for _, child := range p.children {
		slot := cluster.Slot(child)
		if !p.leaf {
			if slot = x.find(ix, tree, child, group); slot != cluster.NoSlot {
				return slot
			}
		} else if x.of[slot] == group && !ix.isException(slot) && x.admits(ix, slot) {
			return slot
		}
	}
	return cluster.NoSlot
}

// admits reports whether a node is feasible. An answer of the columns costs too little to count as a node looked at.
func (x *search) admits(ix *Index, slot cluster.Slot) bool {
	if !x.domain && x.scorer.CanFilter(&ix.dense.rows[slot]) {
		return x.scorer.Fits(&ix.dense.rows[slot])
	}
	return x.fits(ix, slot)
}

func (x *search) ordinary(ix *Index, group int32, bar rules.Bar) (slot cluster.Slot, key int64) {
	best := groupBest{bar: bar, slot: cluster.NoSlot}
	trees := x.trees(group)
	for i := range trees {
		x.descend(ix, &trees[i], group, &best)
	}
	return best.choice()
}

// descend looks for the best node of a tree: depth first, and of siblings the page with the highest bound first. Always to open the page with the highest
// bound would open a tenth fewer, but it costs more to keep all open pages in order.
func (x *search) descend(ix *Index, tree *tree, group int32, best *groupBest) {
	x.stack = x.stack[:0]
	x.push(tree, tree.root, best.bar, 0)
	for len(x.stack) > 0 {
		next := x.stack[len(x.stack)-1]
		x.stack = x.stack[:len(x.stack)-1]
		if !best.bar.BeatenBy(next.bound.Score, next.bound.Tie) {
			continue
		}
		p := &tree.pages[next.page]
		if !p.leaf {
			siblings := len(x.stack)
			for _, child := range p.children {
				x.push(tree, child, best.bar, siblings)
			}
			continue
		}
		for _, child := range p.children {
			if x.of[child] == group && x.scorer.MayBeat(&ix.dense.outlines[child], ix.dense.ties[child], best.bar) {
				x.consider(ix, best, cluster.Slot(child))
			}
		}
	}
}

// push puts a page on the stack, if it may have a better node than the best so far. Siblings are on the stack by bound, the highest on top.
func (x *search) push(tree *tree, page int32, bar rules.Bar, siblings int) {
	box := &tree.boxes[page]
	if !x.scorer.FitSome(box) {
		return
	}
	bound := rules.Bar{Score: x.scorer.BoxBound(box), Tie: box.Tie()}
	if !bar.BeatenBy(bound.Score, bound.Tie) {
		return
	}
	at := len(x.stack)
	x.stack = append(x.stack, boundedPage{})
	for ; at > siblings && bound.BeatenBy(x.stack[at-1].bound.Score, x.stack[at-1].bound.Tie); at-- {
		x.stack[at] = x.stack[at-1]
	}
	x.stack[at] = boundedPage{page, bound}
}
