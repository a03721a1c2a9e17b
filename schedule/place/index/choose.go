package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// order knows the nodes that local filters let in: a ranking, which follows the log, or the scan of one decision.
type order interface {
	// feasible is how many nodes of a group are feasible, and one of them.
	feasible(group int32) (cluster.Slot, int)
	// ordinary is the best node of a group that is no exception, NoSlot if there is none.
	ordinary(ix *Index, group int32) cluster.Slot
	// look finds the group and the key of a node that is ordinary, an exception, or has images of the class; ok is false if it is not feasible.
	look(slot cluster.Slot) (group int32, key int64, ok bool)
}

// choose returns the feasible node with the highest total score, among the groups that the selection allows.
func (ix *Index) choose(o order, c *cluster.Class, v *selection) (cluster.Slot, bool) {
	s, f := &ix.snapshot.State, &ix.stats
	f.Reset(c)
	for i := range v.allowed {
		if sample, n := o.feasible(v.allowed[i].nodeClass); n > 0 {
			f.AddNodes(s, sample, c, n)
		}
	}
	f.SetWeights(c)
	ix.measureExceptions(o, c, v)
	for i := range v.allowed {
		a := &v.allowed[i]
		if a.best = o.ordinary(ix, a.nodeClass); a.best != cluster.NoSlot {
			a.raw[rules.SpreadScore] = rules.RawSpread(f, s, a.best, c)
			f.AddRaw(&a.raw)
		}
	}
	for i := range ix.exceptions {
		f.AddRaw(&ix.exceptions[i].raw)
	}
	best, bestKey := cluster.NoSlot, int64(0)
	take := func(slot cluster.Slot, raw rules.RawValues) {
		raw[rules.ImageScore] = ix.imageScore(slot, c)
		_, key, _ := o.look(slot)
		key += ix.profile.NormalizedScore(f, &raw) << tieBits
		if best == cluster.NoSlot || key > bestKey || (key == bestKey && slot < best) {
			best, bestKey = slot, key
		}
	}
	for i := range v.allowed {
		if a := &v.allowed[i]; a.best != cluster.NoSlot {
			take(a.best, a.raw)
		}
	}
	for i := range ix.exceptions {
		take(ix.exceptions[i].slot, ix.exceptions[i].raw)
	}
	for _, slot := range ix.holding {
		if ix.isException(slot) {
			continue // taken
		}
		if group, _, ok := o.look(slot); ok && v.position[group] != NoGroup {
			take(slot, v.allowed[v.position[group]].raw)
		}
	}
	return best, best != cluster.NoSlot
}

// exception is a feasible node that is unlike the rest of its group: it has raw values of its own.
type exception struct {
	slot cluster.Slot
	raw  rules.RawValues
}

// markExceptions lists and marks the nodes that run pods which the class's soft constraints count.
func (ix *Index) markExceptions(c *cluster.Class) {
	ix.excepted = ix.excepted[:0]
	if c.Constraints == nil {
		return
	}
	s := &ix.snapshot.State
	for len(ix.exceptionIn) < s.Slots() {
		ix.exceptionIn = append(ix.exceptionIn, 0)
	}
	for i := range c.Constraints.Soft {
		if c.Constraints.Soft[i].Census != census.None {
			continue
		}
		for _, slot := range s.Counts().Holders(c.Constraints.Soft[i].Tally).Slots() {
			if ix.exceptionIn[slot] != ix.decision {
				ix.exceptionIn[slot] = ix.decision
				ix.excepted = append(ix.excepted, slot)
			}
		}
	}
}

// isException reports whether a node was marked in this decision.
func (ix *Index) isException(slot cluster.Slot) bool {
	return len(ix.excepted) > 0 && ix.exceptionIn[slot] == ix.decision
}

// measureExceptions finds the raw values of the exceptions that are feasible.
func (ix *Index) measureExceptions(o order, c *cluster.Class, v *selection) {
	ix.exceptions = ix.exceptions[:0]
	for _, slot := range ix.excepted {
		if group, _, ok := o.look(slot); ok && v.position[group] != NoGroup {
			raw := v.allowed[v.position[group]].raw
			raw[rules.SpreadScore] = rules.RawSpread(&ix.stats, &ix.snapshot.State, slot, c)
			ix.exceptions = append(ix.exceptions, exception{slot, raw})
		}
	}
}
