package place

import (
	"hilbert.dev/hilbert/cluster"
)

// ranking keeps, for pods of one size, every node that passes the local filters, by atom and ordered by local score. All classes whose
// pods have the size share it: workloads are many, sizes are few (of the 8,152 tasks of the openb trace 99 in a hundred have one of 60).
// It follows the snapshot's log from its own cursor.
type ranking struct {
	heaps
	class    *cluster.Class // any class of the size
	key      string
	cursor   cluster.Revision
	made     uint64 // the atoms' that the groups are
	lastUsed uint64
}

// shares reports whether the class's place depends on nothing but its size and the atoms.
func (p *Placer) shares(c *cluster.Class) bool {
	return c.Constraints == nil && len(p.atoms.atoms) <= maxAtoms && !p.imagesMatter(c) && p.atoms.learn(c)
}

// imagesMatter reports whether the class's images could give any node a score above 0.
func (p *Placer) imagesMatter(c *cluster.Class) bool {
	s := &p.snapshot.State
	var most float64
	for _, name := range c.Images {
		nodes, size := s.NodesWithImage(name)
		most += float64(float64(size) * (float64(nodes) / float64(max(s.Inhabited(), 1))))
	}
	return most >= float64(minImages)
}

// build evaluates every slot.
func (r *ranking) build(p *Placer) {
	s := &p.snapshot.State
	r.clear()
	r.grow(s.Slots())
	for i := range s.Slots() {
		r.redefine(p, cluster.Slot(i))
	}
	r.made, r.cursor = p.atoms.made, s.Log().Len()
}

// follow brings the ranking to the snapshot's newest change, to which the atoms have been brought already.
func (r *ranking) follow(p *Placer) {
	s := &p.snapshot.State
	log := s.Log()
	behind := log.Len() - r.cursor
	if r.made != p.atoms.made || !log.Covers(r.cursor) || behind > cluster.Revision(s.Slots()) {
		r.build(p)
		return
	}
	if behind == 0 {
		return
	}
	r.grow(s.Slots())
	p.epoch++
	for at := log.Len(); at > r.cursor; at-- { // newest first: each slot is evaluated once
		change := log.At(at - 1)
		seen := p.stamp(change.Slot)
		switch {
		case change.Kind&cluster.Redefined != 0:
			r.redefine(p, change.Slot)
		case !seen:
			r.update(p, change.Slot)
		}
	}
	r.cursor = log.Len()
}

// redefine evaluates a slot whose node has changed.
func (r *ranking) redefine(p *Placer, slot cluster.Slot) {
	r.remove(slot)
	atom := p.atoms.of[slot]
	r.cells[slot].group = atom
	if atom != noGroup {
		r.group(atom)
		r.update(p, slot)
	}
}

// update evaluates a slot on which other pods run than before.
func (r *ranking) update(p *Placer, slot cluster.Slot) {
	if r.cells[slot].group == noGroup {
		return
	}
	s := &p.snapshot.State
	if s.Node(slot) == nil || !fitsIn(Local, s, slot, r.class) {
		r.remove(slot)
		return
	}
	r.put(slot, p.profile.localScore(s, slot, r.class)<<tieBits|int64(p.tie(slot)))
}

// best returns the feasible node with the highest total score, among the atoms that the view opens.
func (r *ranking) best(p *Placer, v *view) (cluster.Slot, bool) {
	f := &p.field
	f.reset(v.class)
	for i := range v.open {
		if o := &v.open[i]; r.first(o.atom) != cluster.NoSlot {
			f.measure(&o.raw)
		}
	}
	best, bestKey := cluster.NoSlot, int64(0)
	for i := range v.open {
		o := &v.open[i]
		slot := r.first(o.atom)
		if slot == cluster.NoSlot {
			continue
		}
		key := r.cells[slot].key + p.profile.normalizedScore(f, &o.raw)<<tieBits
		if best == cluster.NoSlot || key > bestKey || (key == bestKey && slot < best) {
			best, bestKey = slot, key
		}
	}
	return best, best != cluster.NoSlot
}

// first is the best node of an atom, NoSlot if none is feasible.
func (r *ranking) first(atom int32) cluster.Slot {
	if int(atom) >= len(r.groups) || len(r.groups[atom]) == 0 {
		return cluster.NoSlot
	}
	return r.groups[atom][0]
}
