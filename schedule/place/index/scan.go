package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// scan finds the best node for one decision by one pass over all nodes. It serves classes that tell nodes apart too finely for a forest, and profiles
// whose scores have no bound. It keeps nothing for the next decision.
type scan struct {
	query
	input  rules.ScanInput
	groups []groupNodes // by index of the selection's allowed
}

// groupNodes is what a scan finds out about the nodes of a group.
type groupNodes struct {
	groupBest
	feasible int          // how many are; counted for soft spread constraints only
	sample   cluster.Slot // one of these
}

// run passes over all nodes.
func (x *scan) run(ix *Index, c *cluster.Class, scorer *rules.DenseScorer, v *selection, of []int32) {
	ix.dense.follow(ix)
	x.begin(c, scorer, v, of)
	x.groups = x.groups[:0]
	ix.looked += x.cost(ix)
	x.input = rules.ScanInput{Outlines: ix.dense.outlines, Ties: ix.dense.ties, Of: of, Position: v.position, Bars: x.input.Bars[:0]}
	for range v.allowed {
		nothing := rules.Bar{Score: rules.NoBar}
		x.groups = append(x.groups, groupNodes{groupBest: groupBest{bar: nothing, slot: cluster.NoSlot}, sample: cluster.NoSlot})
		x.input.Bars = append(x.input.Bars, nothing)
	}
	if x.soft {
		x.count(ix)
	}
	for i := x.scorer.Next(&x.input, 0); i < len(x.input.Outlines); i = x.scorer.Next(&x.input, i+1) {
		at := v.position[of[i]]
		x.consider(ix, &x.groups[at].groupBest, cluster.Slot(i))
		x.input.Bars[at] = x.groups[at].bar
	}
}

// cost is how many nodes a pass counts as. Columns are read so fast that most of it is what the tables are asked about.
func (x *scan) cost(ix *Index) int {
	if x.soft || x.domain || !x.scorer.Bounded {
		return ix.snapshot.Slots()
	}
	return ix.snapshot.Slots() / nodesPerColumnPass
}

// nodesPerColumnPass is how many nodes one pass over columns passes in the time in which the tables are asked about one.
const nodesPerColumnPass = 32

// count counts the feasible nodes of each group, for scores that depend on how many there are.
func (x *scan) count(ix *Index) {
	for i := range ix.dense.rows {
		slot := cluster.Slot(i)
		if at := x.selection.indexOf(x.of[slot]); at != NoGroup && x.fits(ix, slot) {
			g := &x.groups[at]
			g.feasible, g.sample = g.feasible+1, slot
		}
	}
}

func (x *scan) feasible(_ *Index, group int32) (cluster.Slot, int) {
	g := x.group(group)
	switch {
	case x.soft:
		return g.sample, g.feasible
	case g.slot == cluster.NoSlot:
		return cluster.NoSlot, 0
	}
	return g.slot, 1
}

func (x *scan) sample(_ *Index, group int32) cluster.Slot { return x.group(group).slot }

func (x *scan) ordinary(_ *Index, group int32, _ rules.Bar) (slot cluster.Slot, key int64) {
	return x.group(group).choice()
}

func (x *scan) bound(int32) int64 { return 0 } // each group's best is known

func (x *scan) group(group int32) *groupNodes { return &x.groups[x.selection.position[group]] }
