package index

import (
	"math"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// scan answers for one decision what a ranking always knows, by one pass over all nodes. It is the floor: what no index is kept for costs this
// and no more, and leaves nothing behind.
type scan struct {
	tops  []top // by index of the selection's allowed
	of    []int32
	v     *selection
	sieve rules.Sieve
	keys  []int64 // by slot, of the nodes that are marked; absentKey where such a node is not feasible
}

// top is the best node of a group.
type top struct {
	key    int64
	slot   cluster.Slot // NoSlot: none is ordinary
	sample cluster.Slot // a feasible one
	nodes  int
}

const absentKey = int64(-1) << 62

// run passes over all nodes. Those that are marked are exceptions, or have images of the class.
func (x *scan) run(ix *Index, c *cluster.Class, v *selection, of []int32) {
	s := &ix.snapshot.State
	ix.dense.follow(ix)
	x.v, x.of, x.tops = v, of, x.tops[:0]
	for range v.allowed {
		x.tops = append(x.tops, top{slot: cluster.NoSlot, sample: cluster.NoSlot})
	}
	for len(x.keys) < s.Slots() {
		x.keys = append(x.keys, absentKey)
	}
	for _, list := range [][]cluster.Slot{ix.excepted, ix.holding} {
		for _, slot := range list {
			x.keys[slot] = absentKey
		}
	}
	j := ix.profile.DenseScorer(c)
	x.sieve = rules.Sieve{Outlines: ix.dense.outlines, Ties: ix.dense.ties, Of: of, Position: v.position, Bars: x.sieve.Bars[:0]}
	for range v.allowed {
		x.sieve.Bars = append(x.sieve.Bars, rules.Bar{Score: float32(math.Inf(-1))})
	}
	if c.Constraints != nil && len(c.Constraints.Soft) > 0 {
		x.count(ix, c, &j)
	}
	for _, list := range [][]cluster.Slot{ix.excepted, ix.holding} {
		for _, slot := range list {
			x.keys[slot] = absentKey
			if t := x.topOf(slot); t != nil && j.Fits(&ix.dense.rows[slot]) && x.fits(ix, c, &j, slot) && rules.FitsIn(rules.Domain, &ix.snapshot.State, slot, c) {
				x.keys[slot] = x.key(ix, c, &j, slot)
			}
		}
	}
	for i := j.Next(&x.sieve, 0); i < len(x.sieve.Outlines); i = j.Next(&x.sieve, i+1) {
		slot := cluster.Slot(i)
		if j.Fits(&ix.dense.rows[i]) && !ix.isException(slot) && x.fits(ix, c, &j, slot) {
			x.consider(ix, c, &j, slot)
		}
	}
}

// topOf is the best of a slot's group, nil if the selection does not allow it.
func (x *scan) topOf(slot cluster.Slot) *top {
	if group := x.of[slot]; group != NoGroup && x.v.position[group] != NoGroup {
		return &x.tops[x.v.position[group]]
	}
	return nil
}

// count counts the feasible nodes of each group, for scores that depend on how many there are.
func (x *scan) count(ix *Index, c *cluster.Class, j *rules.DenseScorer) {
	domain := rules.UsesDomainFilters(c)
	for i := range ix.dense.rows {
		slot := cluster.Slot(i)
		if !j.Fits(&ix.dense.rows[i]) {
			continue
		}
		t := x.topOf(slot)
		if t == nil || !x.fits(ix, c, j, slot) || domain && !rules.FitsIn(rules.Domain, &ix.snapshot.State, slot, c) {
			continue
		}
		t.nodes, t.sample = t.nodes+1, slot
	}
}

// fits asks what the columns do not know.
func (x *scan) fits(ix *Index, c *cluster.Class, j *rules.DenseScorer, slot cluster.Slot) bool {
	return j.Whole || rules.FitsIn(rules.Local, &ix.snapshot.State, slot, c)
}

func (x *scan) key(ix *Index, c *cluster.Class, j *rules.DenseScorer, slot cluster.Slot) int64 {
	if j.Whole {
		return j.Score(&ix.dense.rows[slot])<<tieBits | int64(ix.dense.ties[slot])
	}
	return ix.key(slot, c)
}

// consider takes in a node that may be the best of its group. Filters on other nodes are asked only of one that would be.
func (x *scan) consider(ix *Index, c *cluster.Class, j *rules.DenseScorer, slot cluster.Slot) {
	at := x.v.position[x.of[slot]]
	t, key := &x.tops[at], x.key(ix, c, j, slot)
	if t.slot != cluster.NoSlot && key <= t.key || !rules.FitsIn(rules.Domain, &ix.snapshot.State, slot, c) {
		return
	}
	t.slot, t.key, t.sample, t.nodes = slot, key, slot, max(t.nodes, 1)
	x.sieve.Bars[at] = rules.Bar{Score: float32(key >> tieBits), Tie: uint32(key)}
}

func (x *scan) feasible(group int32) (cluster.Slot, int) {
	t := &x.tops[x.v.position[group]]
	return t.sample, t.nodes
}

func (x *scan) ordinary(_ *Index, group int32) cluster.Slot { return x.tops[x.v.position[group]].slot }

func (x *scan) look(slot cluster.Slot) (group int32, key int64, ok bool) {
	if t := x.of[slot]; t != NoGroup && x.v.position[t] != NoGroup {
		if top := &x.tops[x.v.position[t]]; top.slot == slot {
			return t, top.key, true
		}
	}
	return x.of[slot], x.keys[slot], x.keys[slot] != absentKey
}
