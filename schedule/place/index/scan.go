package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// scan answers for one decision what a ranking always knows, by one pass over all nodes. It is the floor: what no index is kept for costs this
// and no more, and leaves nothing behind.
type scan struct {
	tops []top // by index of the selection's allowed
	of   []int32
	v    *selection
	keys []int64 // by slot, of the nodes that are marked; absentKey where such a node is not feasible
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
	softly := c.Constraints != nil && len(c.Constraints.Soft) > 0 // all feasible nodes are counted
	marks := len(ix.excepted)+len(ix.holding) > 0
	rows, ties := ix.dense.rows, ix.dense.ties
	for i := range rows {
		d := &rows[i]
		group := of[i]
		if group == NoGroup || v.position[group] == NoGroup || !j.Fits(d) {
			continue
		}
		t, slot := &x.tops[v.position[group]], cluster.Slot(i)
		marked := marks && (ix.isException(slot) || ix.hasImages(slot))
		if j.Whole && !softly && !marked && t.slot != cluster.NoSlot {
			if bound := j.Bound(d); bound < t.key>>tieBits || bound == t.key>>tieBits && int64(ties[i]) < t.key&(1<<tieBits-1) {
				continue
			}
		}
		x.consider(ix, c, &j, t, slot, softly || marked)
	}
}

// consider takes in a node that has room. Filters on other nodes are asked late, of few nodes, unless each feasible node counts.
func (x *scan) consider(ix *Index, c *cluster.Class, j *rules.DenseScorer, t *top, slot cluster.Slot, counts bool) {
	s := &ix.snapshot.State
	if !j.Whole && !rules.FitsIn(rules.Local, s, slot, c) || counts && !rules.FitsIn(rules.Domain, s, slot, c) {
		return
	}
	if counts {
		t.nodes, t.sample = t.nodes+1, slot
	}
	exception, images := ix.isException(slot), ix.hasImages(slot)
	d := &ix.dense.rows[slot]
	if j.Whole && !exception && !images && t.slot != cluster.NoSlot {
		if bound := j.Bound(d); bound < t.key>>tieBits {
			return
		}
	}
	var score int64
	if j.Whole {
		score = j.Score(d)
	} else {
		score = ix.profile.LocalScore(s, slot, c)
	}
	key := score<<tieBits | int64(ix.dense.ties[slot])
	if exception || images {
		x.keys[slot] = key
	}
	if exception || t.slot != cluster.NoSlot && key <= t.key {
		return
	}
	if counts || rules.FitsIn(rules.Domain, s, slot, c) {
		t.slot, t.key, t.sample, t.nodes = slot, key, slot, max(t.nodes, 1)
	}
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
