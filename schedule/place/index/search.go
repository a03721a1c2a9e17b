package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// search answers for one decision by the forest: branch and bound in the tree of each group.
type search struct {
	asked
	forest forest
	ahead  []promise // scratch: a heap
}

// promise is a page and what no node in it exceeds.
type promise struct {
	page  int32
	bound rules.Bar
}

// start begins a decision.
func (x *search) start(ix *Index, c *cluster.Class, v *selection) {
	ix.dense.follow(ix)
	x.forest.follow(ix)
	x.ask(ix, c, v, ix.nodeClasses.of)
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
	if bound := x.scorer.BoundBox(&tree.pages[tree.root].box); bound < rules.Unbounded {
		return bound
	}
	return 0
}

// countPage counts the feasible nodes of a page by asking each.
func (x *search) countPage(ix *Index, tree *tree, id int32, t *top) {
	p := &tree.pages[id]
	if !x.scorer.FitSome(&p.box) {
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
	if !x.scorer.FitSome(&p.box) {
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

// descend looks for the best node of a tree: pages are opened in the order of what they promise, until none promises more than what was found.
func (x *search) descend(ix *Index, tree *tree, t *top) {
	x.ahead = x.ahead[:0]
	x.push(tree, tree.root, t)
	for len(x.ahead) > 0 {
		next := x.pop()
		if !t.best.Beats(next.bound.Score, next.bound.Tie) {
			break
		}
		p := &tree.pages[next.page]
		if !p.leaf {
			for _, below := range p.below {
				x.push(tree, below, t)
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

// push puts a page where its turn is, if it may have a better node than what was found.
func (x *search) push(tree *tree, page int32, t *top) {
	box := &tree.pages[page].box
	if !x.scorer.FitSome(box) {
		return
	}
	bound := rules.Bar{Score: x.scorer.BoundBox(box), Tie: box.Tie()}
	if !t.best.Beats(bound.Score, bound.Tie) {
		return
	}
	at := len(x.ahead)
	x.ahead = append(x.ahead, promise{page, bound})
	for at > 0 {
		above := (at - 1) / 2
		if bound.Beats(x.ahead[above].bound.Score, x.ahead[above].bound.Tie) {
			break
		}
		x.ahead[at] = x.ahead[above]
		at = above
	}
	x.ahead[at] = promise{page, bound}
}

// pop takes the page out that promises most.
func (x *search) pop() promise {
	next, last := x.ahead[0], x.ahead[len(x.ahead)-1]
	x.ahead = x.ahead[:len(x.ahead)-1]
	for at := 0; len(x.ahead) > 0; {
		child := 2*at + 1
		if other := child + 1; other < len(x.ahead) && x.ahead[child].bound.Beats(x.ahead[other].bound.Score, x.ahead[other].bound.Tie) {
			child = other
		}
		if child >= len(x.ahead) || !last.bound.Beats(x.ahead[child].bound.Score, x.ahead[child].bound.Tie) {
			x.ahead[at] = last
			break
		}
		x.ahead[at] = x.ahead[child]
		at = child
	}
	return next
}
