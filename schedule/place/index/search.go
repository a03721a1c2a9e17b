package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// search answers for one decision by the forest: branch and bound in the tree of each group.
type search struct {
	query
	forest forest
	ahead  []promise // scratch: a stack
}

// promise is a page and what no node in it exceeds.
type promise struct {
	page  int32
	bound rules.Bar
}

// start begins a decision.
func (x *search) start(ix *Index, c *cluster.Class, scorer *rules.DenseScorer, v *selection) {
	ix.dense.follow(ix)
	x.forest.follow(ix)
	x.begin(c, scorer, v, ix.nodeClasses.of)
}

func (x *search) feasible(ix *Index, group int32) (cluster.Slot, int) {
	tree := x.forest.tree(group)
	if x.soft {
		return x.count(ix, tree, tree.root)
	}
	slot := x.find(ix, tree, tree.root)
	if slot == cluster.NoSlot {
		return slot, 0
	}
	return slot, 1
}

func (x *search) promise(group int32) int64 {
	tree := x.forest.tree(group)
	if bound := x.scorer.BoundBox(&tree.boxes[tree.root]); bound < rules.Unbounded {
		return bound
	}
	return 0
}

// count is how many nodes of a page are feasible, and one of them. Where the columns answer for all filters, nodes of a page where all fit are not
// looked at.
func (x *search) count(ix *Index, tree *tree, id int32) (sample cluster.Slot, feasible int) {
	p, box := &tree.pages[id], &tree.boxes[id]
	switch {
	case !x.scorer.FitSome(box):
		return cluster.NoSlot, 0
	case x.byColumns() && x.scorer.FitAll(box):
		return tree.first(id), box.Nodes()
	}
	sample = cluster.NoSlot
	for _, below := range p.below {
		one, n := cluster.Slot(below), 0
		if !p.leaf {
			one, n = x.count(ix, tree, below)
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
	tree := x.forest.tree(group)
	return x.find(ix, tree, tree.root)
}

// find is a feasible node of a page that is no exception, NoSlot if there is none.
func (x *search) find(ix *Index, tree *tree, id int32) cluster.Slot {
	p := &tree.pages[id]
	if !x.scorer.FitSome(&tree.boxes[id]) {
		return cluster.NoSlot
	}
	for _, below := range p.below {
		slot := cluster.Slot(below)
		if !p.leaf {
			if slot = x.find(ix, tree, below); slot != cluster.NoSlot {
				return slot
			}
		} else if !ix.isException(slot) && x.admits(ix, slot) {
			return slot
		}
	}
	return cluster.NoSlot
}

// byColumns reports whether the columns answer for all filters.
func (x *search) byColumns() bool { return x.scorer.Filters && !x.domain }

// admits reports whether a node is feasible. What the columns answer costs so little that it does not count as a look.
func (x *search) admits(ix *Index, slot cluster.Slot) bool {
	if x.byColumns() {
		return x.scorer.Fits(&ix.dense.rows[slot])
	}
	return x.fits(ix, slot)
}

func (x *search) ordinary(ix *Index, group int32, bar rules.Bar) (slot cluster.Slot, key int64) {
	best := groupBest{bar: bar, slot: cluster.NoSlot}
	x.descend(ix, x.forest.tree(group), &best)
	return best.choice()
}

// descend looks for the best node of a tree: depth first, the page that promises most before its siblings. Best first opens a tenth fewer pages, and costs
// more for keeping them in order.
func (x *search) descend(ix *Index, tree *tree, best *groupBest) {
	x.ahead = x.ahead[:0]
	x.push(tree, tree.root, best.bar, 0)
	for len(x.ahead) > 0 {
		next := x.ahead[len(x.ahead)-1]
		x.ahead = x.ahead[:len(x.ahead)-1]
		if !best.bar.Beats(next.bound.Score, next.bound.Tie) {
			continue
		}
		p := &tree.pages[next.page]
		if !p.leaf {
			siblings := len(x.ahead)
			for _, below := range p.below {
				x.push(tree, below, best.bar, siblings)
			}
			continue
		}
		for _, below := range p.below {
			if x.scorer.May(&ix.dense.outlines[below], ix.dense.ties[below], best.bar) {
				x.consider(ix, best, cluster.Slot(below))
			}
		}
	}
}

// push puts a page on the stack, if it may have a better node than what was found: among its siblings those that promise more come after it.
func (x *search) push(tree *tree, page int32, bar rules.Bar, siblings int) {
	box := &tree.boxes[page]
	if !x.scorer.FitSome(box) {
		return
	}
	bound := rules.Bar{Score: x.scorer.BoundBox(box), Tie: box.Tie()}
	if !bar.Beats(bound.Score, bound.Tie) {
		return
	}
	at := len(x.ahead)
	x.ahead = append(x.ahead, promise{})
	for ; at > siblings && bound.Beats(x.ahead[at-1].bound.Score, x.ahead[at-1].bound.Tie); at-- {
		x.ahead[at] = x.ahead[at-1]
	}
	x.ahead[at] = promise{page, bound}
}
