package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// DomainScorer chooses nodes for pods of one class among those of some domains only. Scores are normalised over the feasible nodes of a
// domain, as if the cluster had no others.
//
// For a class without constraints between pods it keeps a heap for each static raw score of each domain. For other classes it judges all
// nodes of the domain on each choice.
type DomainScorer struct {
	nodeHeaps
	Class   *cluster.Class
	ordered bool

	domains []domainNodes     // the first ones are in use
	raws    []rules.RawValues // by group
	slots   []cluster.Slot    // that the heaps know

	feasible []cluster.Slot // scratch of judge
	measured []rules.RawValues
}

// domainNodes is the nodes of one domain.
type domainNodes struct {
	slots  []cluster.Slot
	groups []int32
}

// Reset forgets all nodes, for pods of another class or after nodes have changed.
func (x *DomainScorer) Reset(ix *Index, c *cluster.Class, domains int) {
	for _, slot := range x.slots {
		x.cells[slot] = cell{group: NoGroup, position: absent}
	}
	x.slots, x.raws, x.groups = x.slots[:0], x.raws[:0], x.groups[:0]
	x.Class, x.ordered = c, c.Constraints == nil && !ix.imagesMatter(c) && !c.Claims.HasAlternatives()
	x.grow(ix.snapshot.Slots())
	for len(x.domains) < domains {
		x.domains = append(x.domains, domainNodes{})
	}
	for i := range x.domains[:domains] {
		x.domains[i].slots, x.domains[i].groups = x.domains[i].slots[:0], x.domains[i].groups[:0]
	}
}

// Add takes in a node. It must be added once only.
func (x *DomainScorer) Add(ix *Index, in int, slot cluster.Slot) {
	s := &ix.snapshot.State
	if s.Node(slot) == nil || !rules.FitsIn(rules.Static, s, slot, x.Class) || !rules.FitsIn(rules.Local, s, slot, x.Class) {
		return
	}
	h := &x.domains[in]
	if !x.ordered {
		h.slots = append(h.slots, slot)
		return
	}
	x.slots = append(x.slots, slot)
	x.cells[slot].group = x.groupOf(h, ix.profile.StaticValues(s, slot, x.Class))
	x.Update(ix, slot)
}

func (x *DomainScorer) groupOf(h *domainNodes, raw rules.RawValues) int32 {
	for _, id := range h.groups {
		if x.raws[id] == raw {
			return id
		}
	}
	id := int32(len(x.raws))
	x.raws = append(x.raws, raw)
	x.ensureGroup(id)
	h.groups = append(h.groups, id)
	return id
}

// Update evaluates a node on which other pods run than before.
func (x *DomainScorer) Update(ix *Index, slot cluster.Slot) {
	if !x.ordered || x.cells[slot].group == NoGroup {
		return
	}
	s := &ix.snapshot.State
	if !rules.FitsIn(rules.Local, s, slot, x.Class) {
		x.remove(slot)
		return
	}
	x.put(slot, ix.key(slot, x.Class))
}

// Best returns the best node of a domain.
func (x *DomainScorer) Best(ix *Index, in int) (cluster.Slot, bool) {
	h := &x.domains[in]
	if !x.ordered {
		return x.bestByAllScores(ix, h.slots)
	}
	x.dropTaken(ix, h)
	f := &ix.stats
	f.Reset(x.Class)
	for _, id := range h.groups {
		if len(x.groups[id]) > 0 {
			f.AddRaw(&x.raws[id])
		}
	}
	best, bestKey := cluster.NoSlot, int64(0)
	for _, id := range h.groups {
		if len(x.groups[id]) == 0 {
			continue
		}
		slot := x.groups[id][0]
		key := x.cells[slot].key + ix.profile.NormalizedScore(f, &x.raws[id])<<tieBits
		if best == cluster.NoSlot || key > bestKey || (key == bestKey && slot < best) {
			best, bestKey = slot, key
		}
	}
	return best, best != cluster.NoSlot
}

// dropTaken removes the best nodes of each group that have nothing left for the claims of the class, for what was chosen elsewhere. More is chosen as long as the
// scorer is in use, so that they stay removed.
func (x *DomainScorer) dropTaken(ix *Index, h *domainNodes) {
	s := &ix.snapshot.State
	if !rules.DependsOnChosen(s, x.Class) {
		return
	}
	for _, id := range h.groups {
		for len(x.groups[id]) > 0 && !rules.FitsIn(rules.Domain, s, x.groups[id][0], x.Class) {
			x.remove(x.groups[id][0])
		}
	}
}

// bestByAllScores asks every filter and every score about each of the nodes.
func (x *DomainScorer) bestByAllScores(ix *Index, slots []cluster.Slot) (cluster.Slot, bool) {
	s, f, c := &ix.snapshot.State, &ix.stats, x.Class
	f.Reset(c)
	x.feasible, x.measured = x.feasible[:0], x.measured[:0]
	for _, slot := range slots {
		if rules.FitsIn(rules.Local, s, slot, c) && rules.FitsIn(rules.Domain, s, slot, c) {
			x.feasible = append(x.feasible, slot)
			f.AddNodes(s, slot, c, 1)
		}
	}
	f.SetWeights(c)
	for _, slot := range x.feasible {
		raw := ix.profile.RawValues(f, s, slot, c)
		f.AddRaw(&raw)
		x.measured = append(x.measured, raw)
	}
	best, bestKey := cluster.NoSlot, int64(0)
	for i, slot := range x.feasible {
		key := keyOf(ix.profile.LocalScore(s, slot, c)+ix.profile.NormalizedScore(f, &x.measured[i]), ix.Tie(slot))
		if best == cluster.NoSlot || key > bestKey || (key == bestKey && slot < best) {
			best, bestKey = slot, key
		}
	}
	return best, best != cluster.NoSlot
}
