package index

import (
	"encoding/binary"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// classIndex keeps, for one class, every node that passes the filters which look at one node, ordered by local score. It follows the
// snapshot's log from its own cursor.
//
// Nodes are in groups. All nodes of a group give equal answers to the Domain filters and to the normalised scores, so a decision asks
// them of one node a group. What makes nodes equal is the group's coordinates: the raw values that follow from the node's properties,
// its domain under each coarse topology key (one with few domains), and the counts in its domain of each fine census (over a key with
// many domains, such as the hostname).
//
// It is for classes that a ranking cannot serve: those whose place depends on where other pods stand, or on images.
type classIndex struct {
	nodeHeaps
	class     *cluster.Class
	cursor    changes.Revision
	priceList uint64 // the price list that the keys are by
	lastUsed  uint64
	verdicts  []groupVerdict // by group
	byCoords  map[string]int32

	coarse  []census.KeyID
	fine    []fineCensus
	onNode  []*census.Spread // soft constraints that count on the node itself
	scratch []byte
}

// groupVerdict is what the latest decision found out about a group.
type groupVerdict struct {
	raw      rules.RawValues
	feasible bool // whether it has a feasible node
}

// fineCensus is a census whose counts are coordinates. When a count changes, all nodes of the domain move to another group.
type fineCensus struct {
	id      census.ID
	applied []int64           // by domain: the count that the groups reflect
	domain  []census.DomainID // by slot: where it stood when last looked at
}

// maxCoarseDomains is how many domains a topology key may have to be coarse.
const maxCoarseDomains = 64

// build evaluates every slot.
func (x *classIndex) build(ix *Index) {
	s := &ix.snapshot.State
	x.clear()
	clear(x.byCoords)
	x.chooseKeys(ix)
	x.grow(s.Slots())
	ix.looked += s.Slots() * (1 + len(x.fine))
	for i := range s.Slots() {
		x.countsChanged(ix, cluster.Slot(i))
	}
	for i := range s.Slots() {
		x.redefine(ix, cluster.Slot(i))
	}
	x.cursor, x.priceList = s.Log().Len(), ix.profile.PriceList()
}

// chooseKeys decides which topology keys are coarse and which censuses are fine.
func (x *classIndex) chooseKeys(ix *Index) {
	x.coarse, x.fine, x.onNode = x.coarse[:0], x.fine[:0], x.onNode[:0]
	c := x.class.Constraints
	if c == nil {
		return
	}
	s := &ix.snapshot.State
	coarse := func(key census.KeyID) {
		if !slices.Contains(x.coarse, key) {
			x.coarse = append(x.coarse, key)
		}
	}
	for i := range c.Soft { // how many domains the feasible nodes are in must be known, so these are always coarse
		if c.Soft[i].Census == census.None {
			x.onNode = append(x.onNode, &c.Soft[i])
		} else {
			coarse(s.Counts().Census(c.Soft[i].Census).Key())
		}
	}
	c.Each(func(id census.ID) {
		key := s.Counts().Census(id).Key()
		if s.Counts().Domains(key) <= ix.maxCoarse {
			coarse(key)
		}
	})
	c.Each(func(id census.ID) {
		known := func(f fineCensus) bool { return f.id == id }
		if slices.Contains(x.coarse, s.Counts().Census(id).Key()) || slices.ContainsFunc(x.fine, known) {
			return
		}
		x.fine = append(x.fine, fineCensus{id: id})
	})
}

func (x *classIndex) grow(slots int) {
	x.nodeHeaps.grow(slots)
	for i := range x.fine {
		for f := &x.fine[i]; len(f.domain) < slots; {
			f.domain = append(f.domain, census.NoDomain)
		}
	}
}

// follow brings the index to the snapshot's newest change.
func (x *classIndex) follow(ix *Index) {
	s := &ix.snapshot.State
	log := s.Log()
	behind, prices := log.Len()-x.cursor, ix.profile.PriceList()
	if !log.Covers(x.cursor) || behind > changes.Revision(s.Slots()) || prices != x.priceList && x.priceList == 0 {
		x.build(ix)
		return
	}
	if behind > 0 {
		x.grow(s.Slots())
		ix.replay(x.cursor, x.class, changes.Redefined|changes.Reimaged, x)
		x.cursor = log.Len()
	}
	if prices != x.priceList {
		x.reprice(ix, x.class)
		x.priceList = prices
	}
}

// changed takes in a slot's newest state.
func (x *classIndex) changed(ix *Index, slot cluster.Slot, redefined bool) {
	x.countsChanged(ix, slot)
	if redefined {
		x.redefine(ix, slot)
	} else {
		x.update(ix, slot)
	}
}

// countsChanged moves the nodes of the slot's domains, old and new, to other groups where a fine count has changed.
func (x *classIndex) countsChanged(ix *Index, slot cluster.Slot) {
	s := &ix.snapshot.State
	for i := range x.fine {
		f := &x.fine[i]
		counts := s.Counts().Census(f.id)
		before, now := f.domain[slot], counts.Domain(slot)
		f.domain[slot] = now
		x.applyCount(ix, f, counts, before)
		if now != before {
			x.applyCount(ix, f, counts, now)
		}
	}
}

func (x *classIndex) applyCount(ix *Index, f *fineCensus, counts *census.Census, d census.DomainID) {
	if d == census.NoDomain {
		return
	}
	for len(f.applied) <= int(d) {
		f.applied = append(f.applied, 0)
	}
	count := counts.Count(d)
	if f.applied[d] == count {
		return
	}
	f.applied[d] = count
	ix.snapshot.Counts().EachInDomain(counts.Key(), d, func(slot cluster.Slot) {
		if int(slot) < len(x.cells) && x.cells[slot].group != NoGroup {
			x.regroup(ix, slot)
		}
	})
}

// redefine evaluates a slot whose node has changed.
func (x *classIndex) redefine(ix *Index, slot cluster.Slot) {
	s := &ix.snapshot.State
	x.remove(slot)
	x.cells[slot].group = NoGroup
	if s.Node(slot) == nil || !rules.FitsIn(rules.Static, s, slot, x.class) {
		return
	}
	x.cells[slot].group = x.groupOf(ix, slot)
	x.update(ix, slot)
}

// regroup moves a slot to the group that its coordinates now name.
func (x *classIndex) regroup(ix *Index, slot cluster.Slot) {
	if id := x.groupOf(ix, slot); id != x.cells[slot].group {
		x.move(slot, id)
	}
}

// groupOf returns the group of the slot's coordinates, made if need be.
func (x *classIndex) groupOf(ix *Index, slot cluster.Slot) int32 {
	x.scratch = x.coordinates(x.scratch[:0], ix, slot)
	if id, ok := x.byCoords[string(x.scratch)]; ok {
		return id
	}
	id := int32(len(x.groups))
	x.byCoords[string(x.scratch)] = id
	x.ensureGroup(id)
	return id
}

// coordinates spells out all that Domain filters and normalised scores read of a node.
func (x *classIndex) coordinates(b []byte, ix *Index, slot cluster.Slot) []byte {
	s := &ix.snapshot.State
	b = binary.AppendVarint(b, rules.RawTaints(nil, s, slot, x.class))
	b = binary.AppendVarint(b, rules.RawAffinity(nil, s, slot, x.class))
	for _, name := range x.class.Images {
		size, ok := rules.ImageSize(s.Node(slot), name)
		if !ok {
			size = -1
		}
		b = binary.AppendVarint(b, size)
	}
	for _, key := range x.coarse {
		b = binary.AppendVarint(b, int64(s.Counts().Domain(key, slot)))
	}
	for _, soft := range x.onNode {
		count, ok := rules.SoftCount(s, slot, soft)
		if !ok {
			count = -1
		}
		b = binary.AppendVarint(b, int64(count))
	}
	for i := range x.fine {
		counts := s.Counts().Census(x.fine[i].id)
		d := counts.Domain(slot)
		if d == census.NoDomain {
			b = append(b, 0)
			continue
		}
		b = binary.AppendVarint(append(b, 1), counts.Count(d)) // any number: terms that repel weigh less than nothing
	}
	return b
}

// update evaluates a slot on which other pods run than before.
func (x *classIndex) update(ix *Index, slot cluster.Slot) {
	if x.cells[slot].group == NoGroup {
		return
	}
	s := &ix.snapshot.State
	if !rules.FitsIn(rules.Local, s, slot, x.class) {
		x.remove(slot)
		return
	}
	if len(x.onNode) > 0 {
		x.regroup(ix, slot)
	}
	x.put(slot, ix.key(slot, x.class))
}

// best returns the feasible node with the highest total score.
func (x *classIndex) best(ix *Index) (cluster.Slot, bool) {
	s, f := &ix.snapshot.State, &ix.stats
	f.Reset(x.class)
	for len(x.verdicts) < len(x.groups) {
		x.verdicts = append(x.verdicts, groupVerdict{})
	}
	for i, heap := range x.groups {
		g := &x.verdicts[i]
		g.feasible = len(heap) > 0 && rules.FitsIn(rules.Domain, s, heap[0], x.class)
		if g.feasible {
			f.AddNodes(s, heap[0], x.class, len(heap))
		}
	}
	f.SetWeights(x.class)
	for i, heap := range x.groups {
		if g := &x.verdicts[i]; g.feasible {
			g.raw = ix.profile.RawValues(f, s, heap[0], x.class)
			f.AddRaw(&g.raw)
		}
	}
	best, bestKey := cluster.NoSlot, int64(0)
	for i, heap := range x.groups {
		g := &x.verdicts[i]
		if !g.feasible {
			continue
		}
		slot := heap[0]
		key := x.cells[slot].key + ix.profile.NormalizedScore(f, &g.raw)<<tieBits
		if best == cluster.NoSlot || key > bestKey || (key == bestKey && slot < best) {
			best, bestKey = slot, key
		}
	}
	return best, best != cluster.NoSlot
}
