package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// query is what a decision without a ranking asks for: nodes for a class of pods, in the groups that a selection allows.
type query struct {
	class     *cluster.Class
	scorer    rules.DenseScorer
	selection *selection
	of        []int32 // by slot: its group
	soft      bool    // the class has soft spread constraints, which need the number of feasible nodes
	domain    bool    // filters look at other nodes' pods
	looked    int     // how many nodes the filters were asked about
}

func (q *query) begin(c *cluster.Class, scorer *rules.DenseScorer, v *selection, of []int32) {
	*q = query{class: c, scorer: *scorer, selection: v, of: of, soft: c.Constraints.SpreadsSoftly(), domain: rules.UsesDomainFilters(c)}
}

func (q *query) groupOf(slot cluster.Slot) int32 { return q.of[slot] }

// fits asks all filters about a node.
func (q *query) fits(ix *Index, slot cluster.Slot) bool {
	return q.fitsLocal(ix, slot) && q.fitsDomain(ix, slot)
}

// fitsLocal asks the filters that look at one node.
func (q *query) fitsLocal(ix *Index, slot cluster.Slot) bool {
	q.looked++
	return q.scorer.Fits(&ix.dense.rows[slot]) && (q.scorer.CanFilter(&ix.dense.rows[slot]) || rules.FitsIn(rules.Local, &ix.snapshot.State, slot, q.class))
}

// fitsDomain asks the filters that look at other nodes' pods.
func (q *query) fitsDomain(ix *Index, slot cluster.Slot) bool {
	return !q.domain || rules.FitsIn(rules.Domain, &ix.snapshot.State, slot, q.class)
}

func (q *query) score(ix *Index, slot cluster.Slot) int64 {
	if row := &ix.dense.rows[slot]; q.scorer.CanScore(row) {
		return q.scorer.Score(row)
	}
	return ix.profile.LocalScore(&ix.snapshot.State, slot, q.class)
}

func (q *query) judge(ix *Index, slot cluster.Slot, bar rules.Bar) (key int64, ok bool) {
	tie := ix.dense.ties[slot]
	if q.selection.indexOf(q.of[slot]) == NoGroup || !q.scorer.MayBeat(&ix.dense.outlines[slot], tie, bar) || !q.fits(ix, slot) {
		return 0, false
	}
	return keyOf(q.score(ix, slot), tie), true
}

// keyOf joins a score and a tie-break, so that one comparison orders by both.
func keyOf(score int64, tie uint32) int64 { return score<<tieBits | int64(tie) }

// groupBest is the best node of a group that is no exception, so far.
type groupBest struct {
	bar  rules.Bar    // its score and tie; as long as there is none, what it has to beat
	slot cluster.Slot // NoSlot: there is none
}

// consider takes a node in, if it is better than the best of its group so far. Filters on other nodes' pods, and an allocator of devices, are asked only about one
// that would be.
func (q *query) consider(ix *Index, best *groupBest, slot cluster.Slot) {
	late := asksAllocator(q.class)
	if ix.isException(slot) || !late && !q.fitsLocal(ix, slot) || late && !q.scorer.Fits(&ix.dense.rows[slot]) {
		return
	}
	bar := rules.Bar{Score: q.score(ix, slot), Tie: ix.dense.ties[slot]}
	if !best.bar.BeatenBy(bar.Score, bar.Tie) || bar == best.bar && best.slot != cluster.NoSlot && slot > best.slot || late && !q.fitsLocal(ix, slot) || !q.fitsDomain(ix, slot) {
		return
	}
	best.slot, best.bar = slot, bar
}

// choice is the best node with its key.
func (b *groupBest) choice() (slot cluster.Slot, key int64) {
	return b.slot, keyOf(b.bar.Score, b.bar.Tie)
}
