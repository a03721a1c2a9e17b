package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// search answers for one decision by the forest: branch and bound in the tree of each group.
type search struct {
	asked
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
	x.ask(c, scorer, v, ix.nodeClasses.of)
}

func (x *search) feasible(ix *Index, group int32) (cluster.Slot, int) {
	t := &x.tops[x.v.position[group]]
	tree := x.forest.tree(group)
	switch {
	case x.scorer.Filters && !x.domain && x.soft:
		t.one, t.nodes = x.forest.count(tree, &x.scorer)
	case x.scorer.Filters && !x.domain:
		if t.one = x.forest.some(tree, tree.root, &x.scorer); t.one != cluster.NoSlot {
			t.nodes = 1
		}
	case x.soft:
		x.countPage(ix, tree, tree.root, t)
	default:
		if t.one = x.samplePage(ix, tree, tree.root); t.one != cluster.NoSlot {
			t.nodes = 1
		}
	}
	return t.one, t.nodes
}

func (x *search) promise(group int32) int64 {
	tree := x.forest.tree(group)
	if bound := x.scorer.BoundBox(&tree.boxes[tree.root]); bound < rules.Unbounded {
		return bound
	}
	return 0
}

// countPage counts the feasible nodes of a page by asking each.
func (x *search) countPage(ix *Index, tree *tree, id int32, t *top) {
	p := &tree.pages[id]
	if !x.scorer.FitSome(&tree.boxes[id]) {
		return
	}
	for _, below := range p.below {
		if !p.leaf {
			x.countPage(ix, tree, below, t)
		} else if slot := cluster.Slot(below); x.fits(ix, slot) && x.fitsDomain(ix, slot) {
			t.nodes, t.one = t.nodes+1, slot
		}
	}
}

func (x *search) sample(ix *Index, group int32) cluster.Slot {
	tree := x.forest.tree(group)
	return x.samplePage(ix, tree, tree.root)
}

func (x *search) samplePage(ix *Index, tree *tree, id int32) cluster.Slot {
	p := &tree.pages[id]
	if !x.scorer.FitSome(&tree.boxes[id]) {
		return cluster.NoSlot
	}
	for _, below := range p.below {
		slot := cluster.Slot(below)
		if !p.leaf {
			if slot = x.samplePage(ix, tree, below); slot != cluster.NoSlot {
				return slot
			}
		} else if !ix.isException(slot) && x.fits(ix, slot) && x.fitsDomain(ix, slot) {
			return slot
		}
	}
	return cluster.NoSlot
}

func (x *search) ordinary(ix *Index, group int32, bar rules.Bar) cluster.Slot {
	t := &x.tops[x.v.position[group]]
	if !t.found {
		t.best, t.found = bar, true
		x.descend(ix, x.forest.tree(group), t)
	}
	return t.slot
}

// descend looks for the best node of a tree: depth first, the page that promises most before its siblings. Best first opens a tenth fewer pages, and costs
// more for keeping them in order.
func (x *search) descend(ix *Index, tree *tree, t *top) {
	x.ahead = x.ahead[:0]
	x.push(tree, tree.root, t, 0)
	for len(x.ahead) > 0 {
		next := x.ahead[len(x.ahead)-1]
		x.ahead = x.ahead[:len(x.ahead)-1]
		if !t.best.Beats(next.bound.Score, next.bound.Tie) {
			continue
		}
		p := &tree.pages[next.page]
		if !p.leaf {
			siblings := len(x.ahead)
			for _, below := range p.below {
				x.push(tree, below, t, siblings)
			}
			continue
		}
		for _, below := range p.below {
			if x.scorer.May(&ix.dense.outlines[below], ix.dense.ties[below], t.best) {
				x.consider(ix, t, cluster.Slot(below))
			}
		}
	}
}

// push puts a page on the stack, if it may have a better node than what was found: among its siblings those that promise more come after it.
func (x *search) push(tree *tree, page int32, t *top, siblings int) {
	box := &tree.boxes[page]
	if !x.scorer.FitSome(box) {
		return
	}
	bound := rules.Bar{Score: x.scorer.BoundBox(box), Tie: box.Tie()}
	if !t.best.Beats(bound.Score, bound.Tie) {
		return
	}
	at := len(x.ahead)
	x.ahead = append(x.ahead, promise{})
	for ; at > siblings && bound.Beats(x.ahead[at-1].bound.Score, x.ahead[at-1].bound.Tie); at-- {
		x.ahead[at] = x.ahead[at-1]
	}
	x.ahead[at] = promise{page, bound}
}
