package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// asked is a class of pods and the groups that its nodes are in, as a decision without a ranking knows them.
type asked struct {
	class  *cluster.Class
	scorer rules.DenseScorer
	v      *selection
	of     []int32 // by slot: its group
	soft   bool    // it has soft constraints, for which nodes are counted
	domain bool    // filters look at other nodes' pods
	tops   []top   // by index of the selection's allowed
	looked int     // how many nodes the filters were asked about
}

// top is what is known of the nodes of a group.
type top struct {
	best  rules.Bar
	slot  cluster.Slot // the best one that is no exception; NoSlot: there is none
	one   cluster.Slot // a feasible one
	nodes int          // feasible ones; of classes without soft constraints, 1 says that there are some
	found bool         // slot is known
}

func (x *asked) ask(c *cluster.Class, scorer *rules.DenseScorer, v *selection, of []int32) {
	x.class, x.v, x.of, x.scorer, x.looked = c, v, of, *scorer, 0
	x.soft, x.domain = c.Constraints.SpreadsSoftly(), rules.UsesDomainFilters(c)
	x.tops = x.tops[:0]
	for range v.allowed {
		x.tops = append(x.tops, top{best: rules.Bar{Score: rules.NoBar}, slot: cluster.NoSlot, one: cluster.NoSlot})
	}
}

func (x *asked) groupOf(slot cluster.Slot) int32 { return x.of[slot] }

// topOf is that of a slot's group, nil if the selection does not allow it.
func (x *asked) topOf(slot cluster.Slot) *top {
	if group := x.of[slot]; group != NoGroup && x.v.position[group] != NoGroup {
		return &x.tops[x.v.position[group]]
	}
	return nil
}

// fits asks the local filters.
func (x *asked) fits(ix *Index, slot cluster.Slot) bool {
	x.looked++
	return x.scorer.Fits(&ix.dense.rows[slot]) && (x.scorer.Filters || rules.FitsIn(rules.Local, &ix.snapshot.State, slot, x.class))
}

// fitsDomain asks the filters that look at other nodes' pods.
func (x *asked) fitsDomain(ix *Index, slot cluster.Slot) bool {
	return !x.domain || rules.FitsIn(rules.Domain, &ix.snapshot.State, slot, x.class)
}

func (x *asked) score(ix *Index, slot cluster.Slot) int64 {
	if row := &ix.dense.rows[slot]; x.scorer.Scores(row) {
		return x.scorer.Score(row)
	}
	return ix.profile.LocalScore(&ix.snapshot.State, slot, x.class)
}

func (x *asked) judge(ix *Index, slot cluster.Slot, bar rules.Bar) (key int64, ok bool) {
	tie := ix.dense.ties[slot]
	if x.topOf(slot) == nil || !x.scorer.May(&ix.dense.outlines[slot], tie, bar) || !x.fits(ix, slot) || !x.fitsDomain(ix, slot) {
		return 0, false
	}
	return x.score(ix, slot)<<tieBits | int64(tie), true
}

// consider takes a node in, if it is better than the best of its group so far. Filters on other nodes are asked only of one that would be.
func (x *asked) consider(ix *Index, t *top, slot cluster.Slot) {
	if ix.isException(slot) || !x.fits(ix, slot) {
		return
	}
	score, tie := x.score(ix, slot), ix.dense.ties[slot]
	if !t.best.Beats(score, tie) || score == t.best.Score && tie == t.best.Tie && t.slot != cluster.NoSlot && slot > t.slot || !x.fitsDomain(ix, slot) {
		return
	}
	t.slot, t.best = slot, rules.Bar{Score: score, Tie: tie}
}

// scan answers for one decision by one pass over all nodes. It serves classes that tell nodes apart too finely for a forest, and profiles whose
// scores have no bound, and leaves nothing behind.
type scan struct {
	asked
	sieve rules.Sieve
}

// run passes over all nodes.
func (x *scan) run(ix *Index, c *cluster.Class, scorer *rules.DenseScorer, v *selection, of []int32) {
	ix.dense.follow(ix)
	x.ask(c, scorer, v, of)
	if x.soft {
		x.count(ix)
	}
	x.sieve = rules.Sieve{Outlines: ix.dense.outlines, Ties: ix.dense.ties, Of: of, Position: v.position, Bars: x.sieve.Bars[:0]}
	for i := range x.tops {
		x.sieve.Bars = append(x.sieve.Bars, x.tops[i].best)
	}
	for i := x.scorer.Next(&x.sieve, 0); i < len(x.sieve.Outlines); i = x.scorer.Next(&x.sieve, i+1) {
		at := v.position[of[i]]
		t := &x.tops[at]
		x.consider(ix, t, cluster.Slot(i))
		x.sieve.Bars[at] = t.best
	}
	for i := range x.tops {
		if t := &x.tops[i]; !x.soft && t.slot != cluster.NoSlot {
			t.one, t.nodes = t.slot, 1
		}
	}
}

// count counts the feasible nodes of each group, for scores that depend on how many there are.
func (x *scan) count(ix *Index) {
	for i := range ix.dense.rows {
		slot := cluster.Slot(i)
		if t := x.topOf(slot); t != nil && x.fits(ix, slot) && x.fitsDomain(ix, slot) {
			t.nodes, t.one = t.nodes+1, slot
		}
	}
}

func (x *scan) feasible(_ *Index, group int32) (cluster.Slot, int) {
	t := &x.tops[x.v.position[group]]
	return t.one, t.nodes
}

func (x *scan) sample(_ *Index, group int32) cluster.Slot {
	return x.tops[x.v.position[group]].slot
}

func (x *scan) ordinary(_ *Index, group int32, _ rules.Bar) cluster.Slot {
	return x.tops[x.v.position[group]].slot
}

func (x *scan) promise(int32) int64 { return 0 } // each group's best is known
