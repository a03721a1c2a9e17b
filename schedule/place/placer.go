package place

import (
	"hash/fnv"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/topology"
)

// Placer decides on one Snapshot. It keeps an index per class, at most maxIndexes of them.
type Placer struct {
	snapshot   *cluster.Snapshot
	profile    *Profile
	seed       uint64
	maxIndexes int

	indexes map[cluster.ClassID]*index
	clock   uint64 // counts uses, for the least recently used index

	maxCoarse int
	field     field // scratch of a decision
	ask       ask   // the same
	forest    *forest
	loners    int // how many classes that the forest would serve may have an index of their own

	ties    []uint32 // by slot
	tieNode []*cluster.Node
	epoch   uint32
	seen    []uint32 // by slot: the epoch in which it was last stamped
}

// NewPlacer returns a Placer over the snapshot. The seed orders nodes of equal score; maxIndexes bounds the memory (12 bytes a slot,
// 4 a feasible node, each).
func NewPlacer(snapshot *cluster.Snapshot, profile *Profile, seed uint64, maxIndexes int) *Placer {
	return &Placer{
		snapshot: snapshot, profile: profile, seed: seed, maxIndexes: max(maxIndexes, 1),
		indexes: make(map[cluster.ClassID]*index), maxCoarse: maxCoarseDomains, forest: newForest(), loners: maxLoners,
	}
}

// Choice is where a pod should go.
type Choice struct {
	Slot  cluster.Slot
	Grant topology.Grant
}

// Place returns the best node for a pod of the class. ok is false when none fits; Explain says why.
func (p *Placer) Place(c *cluster.Class) (Choice, bool) {
	slot, ok := p.best(c)
	if !ok {
		return Choice{Slot: cluster.NoSlot}, false
	}
	choice := Choice{Slot: slot}
	if !c.GPU.IsZero() {
		choice.Grant, _ = topology.Offer(p.snapshot.Node(slot).GPU, p.snapshot.GPUs(slot), c.GPU)
	}
	return choice, true
}

// maxLoners is how many classes with an index of their own are cheaper than the forest: each follows every change, the forest follows it
// once but searches longer.
const maxLoners = 8

// best returns the best node by the index of the class, or by the forest.
func (p *Placer) best(c *cluster.Class) (cluster.Slot, bool) {
	if len(p.indexes) >= p.loners && p.indexes[c.ID] == nil && p.forest.serves(p, c) {
		return p.forest.best(p, c)
	}
	return p.index(c).best(p)
}

// index returns the class's index, up to date with the snapshot.
func (p *Placer) index(c *cluster.Class) *index {
	p.clock++
	x, ok := p.indexes[c.ID]
	if !ok {
		x = p.recycle(c)
		p.indexes[c.ID] = x
		x.build(p)
	}
	x.lastUsed = p.clock
	x.follow(p)
	return x
}

// recycle returns an empty index, taking the memory of the least recently used one when there are too many.
func (p *Placer) recycle(c *cluster.Class) *index {
	if len(p.indexes) < p.maxIndexes {
		return newIndex(c)
	}
	var oldest *index
	for _, x := range p.indexes {
		if oldest == nil || x.lastUsed < oldest.lastUsed {
			oldest = x
		}
	}
	delete(p.indexes, oldest.class.ID)
	oldest.class = c
	return oldest
}

// tie is the slot's place among nodes of equal score: a hash of the seed and the node's name, so that it depends neither on slots nor
// on the order of events.
func (p *Placer) tie(slot cluster.Slot) uint32 {
	for len(p.ties) <= int(slot) {
		p.ties = append(p.ties, 0)
		p.tieNode = append(p.tieNode, nil)
	}
	if node := p.snapshot.Node(slot); p.tieNode[slot] != node {
		p.ties[slot] = tieHash(p.seed, node.Name)
		p.tieNode[slot] = node
	}
	return p.ties[slot]
}

func tieHash(seed uint64, name string) uint32 {
	h := fnv.New64a()
	var prefix [8]byte
	for i := range prefix {
		prefix[i] = byte(seed >> (8 * i))
	}
	_, _ = h.Write(prefix[:]) // a hash never fails
	_, _ = h.Write([]byte(name))
	sum := h.Sum64()
	sum ^= sum >> 33 // FNV's upper bits mix poorly for short names
	sum *= 0xff51afd7ed558ccd
	return uint32(sum >> 32)
}

// stamp marks a slot in the current epoch and reports whether it was marked already.
func (p *Placer) stamp(slot cluster.Slot) bool {
	for len(p.seen) <= int(slot) {
		p.seen = append(p.seen, 0)
	}
	if p.seen[slot] == p.epoch {
		return true
	}
	p.seen[slot] = p.epoch
	return false
}
