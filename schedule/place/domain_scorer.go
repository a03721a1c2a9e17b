package place

import "hilbert.dev/hilbert/cluster"

// domainScorer chooses nodes for pods of one class among those of some domains only. Scores are normalised over the feasible nodes of the domain:
// it is Judge, as if the cluster had no other nodes.
//
// For a class without constraints between pods it keeps a heap for each static raw score of each domain. For others it judges all nodes of
// the domain on each choice.
type domainScorer struct {
	nodeHeaps
	class   *cluster.Class
	ordered bool

	domains []domainNodes  // the first ones are in use
	raws    []rawValues    // by group
	slots   []cluster.Slot // that the heaps know

	feasible []cluster.Slot // scratch of judge
	measured []rawValues
}

// domainNodes is the nodes of one domain.
type domainNodes struct {
	slots  []cluster.Slot
	groups []int32
}

// reset empties the pen, for pods of another class or after nodes have changed.
func (x *domainScorer) reset(p *Placer, c *cluster.Class, herds int) {
	for _, slot := range x.slots {
		x.cells[slot] = cell{group: noGroup, position: absent}
	}
	x.slots, x.raws, x.groups = x.slots[:0], x.raws[:0], x.groups[:0]
	x.class, x.ordered = c, c.Constraints == nil && !p.imagesMatter(c)
	x.grow(p.snapshot.Slots())
	for len(x.domains) < herds {
		x.domains = append(x.domains, domainNodes{})
	}
	for i := range x.domains[:herds] {
		x.domains[i].slots, x.domains[i].groups = x.domains[i].slots[:0], x.domains[i].groups[:0]
	}
}

// add takes in a node. It must be added once only.
func (x *domainScorer) add(p *Placer, in int, slot cluster.Slot) {
	s := &p.snapshot.State
	if s.Node(slot) == nil || !fitsIn(Static, s, slot, x.class) || !fitsIn(Local, s, slot, x.class) {
		return
	}
	h := &x.domains[in]
	if !x.ordered {
		h.slots = append(h.slots, slot)
		return
	}
	x.slots = append(x.slots, slot)
	x.cells[slot].group = x.groupOf(h, p.profile.static(s, slot, x.class))
	x.update(p, slot)
}

func (x *domainScorer) groupOf(h *domainNodes, raw rawValues) int32 {
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

// update evaluates a node on which other pods run than before.
func (x *domainScorer) update(p *Placer, slot cluster.Slot) {
	if !x.ordered || x.cells[slot].group == noGroup {
		return
	}
	s := &p.snapshot.State
	if !fitsIn(Local, s, slot, x.class) {
		x.remove(slot)
		return
	}
	x.put(slot, p.key(slot, x.class))
}

// best returns the best node of a herd.
func (x *domainScorer) best(p *Placer, in int) (cluster.Slot, bool) {
	h := &x.domains[in]
	if !x.ordered {
		return x.bestByAllScores(p, h.slots)
	}
	f := &p.stats
	f.reset(x.class)
	for _, id := range h.groups {
		if len(x.groups[id]) > 0 {
			f.addRaw(&x.raws[id])
		}
	}
	best, bestKey := cluster.NoSlot, int64(0)
	for _, id := range h.groups {
		if len(x.groups[id]) == 0 {
			continue
		}
		slot := x.groups[id][0]
		key := x.cells[slot].key + p.profile.normalizedScore(f, &x.raws[id])<<tieBits
		if best == cluster.NoSlot || key > bestKey || (key == bestKey && slot < best) {
			best, bestKey = slot, key
		}
	}
	return best, best != cluster.NoSlot
}

// bestByAllScores asks every filter and every score about each of the nodes.
func (x *domainScorer) bestByAllScores(p *Placer, slots []cluster.Slot) (cluster.Slot, bool) {
	s, f, c := &p.snapshot.State, &p.stats, x.class
	f.reset(c)
	x.feasible, x.measured = x.feasible[:0], x.measured[:0]
	for _, slot := range slots {
		if fitsIn(Local, s, slot, c) && fitsIn(Domain, s, slot, c) {
			x.feasible = append(x.feasible, slot)
			f.addNodes(s, slot, c, 1)
		}
	}
	f.setWeights(c)
	for _, slot := range x.feasible {
		raw := p.profile.raw(f, s, slot, c)
		f.addRaw(&raw)
		x.measured = append(x.measured, raw)
	}
	best, bestKey := cluster.NoSlot, int64(0)
	for i, slot := range x.feasible {
		key := (p.profile.localScore(s, slot, c)+p.profile.normalizedScore(f, &x.measured[i]))<<tieBits | int64(p.tie(slot))
		if best == cluster.NoSlot || key > bestKey || (key == bestKey && slot < best) {
			best, bestKey = slot, key
		}
	}
	return best, best != cluster.NoSlot
}
