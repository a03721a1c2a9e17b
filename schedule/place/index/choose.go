package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// order has the nodes that local filters let in, for one decision. A ranking and a search follow the log; a scan does not.
type order interface {
	// feasible is how many nodes of a group are feasible, and one of them. Where nobody asks how many, it may say 1.
	feasible(ix *Index, group int32) (cluster.Slot, int)
	// sample is a feasible node of a group that is no exception, NoSlot if there is none.
	sample(ix *Index, group int32) cluster.Slot
	// ordinary is the best node of a group that is no exception, with its key; NoSlot if there is none. It may be NoSlot when the best does not beat the bar.
	ordinary(ix *Index, group int32, bar rules.Bar) (slot cluster.Slot, key int64)
	// bound is a score that no node of a group exceeds. It only decides which group comes first, so that 0 will do.
	bound(group int32) int64
	// judge finds the key of a node. ok is false if it is not feasible; it may be when the node does not beat the bar.
	judge(ix *Index, slot cluster.Slot, bar rules.Bar) (key int64, ok bool)
	groupOf(slot cluster.Slot) int32
}

// choose returns the feasible node with the highest total score, among the groups that the selection allows.
func (ix *Index) choose(o order, c *cluster.Class, v *selection) (cluster.Slot, bool) {
	s, f := &ix.snapshot.State, &ix.stats
	f.Reset(c)
	soft := c.Constraints.SpreadsSoftly()
	for i := range v.allowed {
		a := &v.allowed[i]
		sample, n := o.feasible(ix, a.nodeClass)
		if a.open = n > 0; a.open {
			f.AddNodes(s, sample, c, n)
			if a.raw[rules.SpreadScore] = 0; !soft {
				f.AddRaw(&a.raw)
			}
		}
	}
	f.SetWeights(c)
	ix.exceptions = ix.exceptions[:0]
	if soft {
		ix.measureExceptions(o, c, v)
		for i := range v.allowed {
			a := &v.allowed[i]
			if !a.open {
				continue
			}
			slot := o.sample(ix, a.nodeClass)
			if a.open = slot != cluster.NoSlot; a.open {
				a.raw[rules.SpreadScore] = rules.RawSpread(f, s, slot, c)
				f.AddRaw(&a.raw)
			}
		}
		for i := range ix.exceptions {
			f.AddRaw(&ix.exceptions[i].raw)
		}
	}
	return ix.chooseAmong(o, c, v)
}

// leader is the best node of a decision so far.
type leader struct {
	slot cluster.Slot
	key  int64
}

// bar is what a node has to beat, if so much is added to its score.
func (l *leader) bar(added int64) rules.Bar {
	if l.slot == cluster.NoSlot {
		return rules.Bar{Score: rules.NoBar}
	}
	return rules.Bar{Score: l.key>>tieBits - added, Tie: uint32(l.key)}
}

func (l *leader) take(slot cluster.Slot, key, added int64) {
	key += added << tieBits
	if l.slot == cluster.NoSlot || key > l.key || key == l.key && slot < l.slot {
		l.slot, l.key = slot, key
	}
}

// chooseAmong compares the best of each group, the exceptions, and the nodes with images of the class. The group with the highest bound comes first: a
// high bar lets the search skip most of the others.
func (ix *Index) chooseAmong(o order, c *cluster.Class, v *selection) (cluster.Slot, bool) {
	f, best := &ix.stats, leader{slot: cluster.NoSlot}
	first, highest := -1, int64(0)
	for i := range v.allowed {
		if a := &v.allowed[i]; a.open {
			a.added = ix.profile.NormalizedScore(f, &a.raw)
			if bound := o.bound(a.nodeClass) + a.added; first < 0 || bound > highest {
				first, highest = i, bound
			}
		}
	}
	take := func(a *allowedClass) {
		if slot, key := o.ordinary(ix, a.nodeClass, best.bar(a.added)); slot != cluster.NoSlot {
			best.take(slot, key, a.added)
		}
	}
	if first >= 0 {
		take(&v.allowed[first])
	}
	for i := range v.allowed {
		if a := &v.allowed[i]; a.open && i != first {
			take(a)
		}
	}
	for i := range ix.exceptions {
		e := &ix.exceptions[i]
		e.raw[rules.ImageScore] = ix.imageScore(e.slot, c)
		best.take(e.slot, e.key, ix.profile.NormalizedScore(f, &e.raw))
	}
	for _, slot := range ix.holding {
		at := v.indexOf(o.groupOf(slot))
		if ix.isException(slot) || at == NoGroup {
			continue // taken, or refused
		}
		a := &v.allowed[at]
		if !a.open {
			continue // all that are feasible are exceptions
		}
		added := a.added + ix.profile.ImagesAdd(ix.imageScore(slot, c))
		if key, ok := o.judge(ix, slot, best.bar(added)); ok {
			best.take(slot, key, added)
		}
	}
	return best.slot, best.slot != cluster.NoSlot
}

// exception is a feasible node that is unlike the rest of its group: it has raw values of its own.
type exception struct {
	slot cluster.Slot
	key  int64
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
	for _, slot := range ix.excepted {
		at := v.indexOf(o.groupOf(slot))
		if at == NoGroup {
			continue
		}
		if key, ok := o.judge(ix, slot, rules.Bar{Score: rules.NoBar}); ok {
			raw := v.allowed[at].raw
			raw[rules.SpreadScore] = rules.RawSpread(&ix.stats, &ix.snapshot.State, slot, c)
			ix.exceptions = append(ix.exceptions, exception{slot, key, raw})
		}
	}
}
