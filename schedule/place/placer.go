package place

import (
	"hash/fnv"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/topology"
)

// Placer decides on one Snapshot. It keeps a ranking for each size of pod, and an index for each class that needs its own; at most
// maxIndexes of either.
type Placer struct {
	snapshot   *cluster.Snapshot
	profile    *Profile
	seed       uint64
	maxIndexes int

	indexes        map[cluster.ClassID]*classIndex
	rankings       map[string]*ranking
	rankingByClass map[cluster.ClassID]*ranking // of classes seen lately
	nodeClasses    *nodeClasses
	uses           uint64 // counts uses, for the least recently used one
	scratch        []byte

	maxCoarse  int
	maxHolders int
	// Scratch of a decision.
	stats       feasibleStats
	exceptions  []exception
	exceptionIn []uint32 // by slot: the decision in which it was special
	decision    uint32
	positions   []int

	ties    []uint32 // by slot
	tieNode []*cluster.Node
	epoch   uint32
	seen    []uint32 // by slot: the epoch in which it was last stamped

	levels          []string // topology keys, the widest first
	partitions      map[string]*partition
	capacities      map[string]*capacityIndex
	capacityByClass map[cluster.ClassID]*capacityIndex // of classes seen lately
	unitPlacement   unitPlacement
}

// NewPlacer returns a Placer over the snapshot. The seed orders nodes of equal score; maxIndexes bounds the memory (16 bytes a slot,
// 4 a feasible node, each).
func NewPlacer(snapshot *cluster.Snapshot, profile *Profile, seed uint64, maxIndexes int) *Placer {
	return &Placer{
		snapshot: snapshot, profile: profile, seed: seed, maxIndexes: max(maxIndexes, 1),
		indexes: make(map[cluster.ClassID]*classIndex), rankings: make(map[string]*ranking),
		rankingByClass: make(map[cluster.ClassID]*ranking), nodeClasses: newNodeClasses(), maxCoarse: maxCoarseDomains, maxHolders: maxHolders,
	}
}

// SetMaxCoarseDomains sets how many domains a topology key may have before an index follows it count by count instead of domain by domain. Either
// way is exact; tests choose it, to have both ways tried on small clusters. It must be called before the first Place.
func (p *Placer) SetMaxCoarseDomains(domains int) { p.maxCoarse = domains }

// SetMaxHolders sets up to how many nodes with pods of its own a class that is softly spread shares a ranking. Either way is exact; tests
// choose it. It must be called before the first Place.
func (p *Placer) SetMaxHolders(nodes int) { p.maxHolders = nodes }

// SetLevels sets the topology keys that units are packed by, the widest first. A key that is asked for and not among them is a level by
// itself. It must be called before the first PlaceUnit.
func (p *Placer) SetLevels(keys []string) { p.levels = keys }

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
	return p.choose(slot, c), true
}

// choose is the choice of a node where a pod of the class fits.
func (p *Placer) choose(slot cluster.Slot, c *cluster.Class) Choice {
	choice := Choice{Slot: slot}
	if c.AsksGrant() {
		choice.Grant, _ = p.snapshot.Offer(slot, c)
	}
	return choice
}

// best returns the best node by the ranking of the pod's size, or by the class's own index.
func (p *Placer) best(c *cluster.Class) (cluster.Slot, bool) {
	p.uses++
	if !p.sharesRanking(c) {
		return p.classIndex(c).best(p)
	}
	p.nodeClasses.follow(&p.snapshot.State)
	r := p.ranking(c)
	r.lastUsed = p.uses
	r.follow(p)
	return r.best(p, c, p.nodeClasses.selection(p, c))
}

// classIndex returns the class's classIndex, up to date with the snapshot.
func (p *Placer) classIndex(c *cluster.Class) *classIndex {
	x, ok := p.indexes[c.ID]
	if !ok {
		x = &classIndex{byCoords: make(map[string]int32)}
		if len(p.indexes) >= p.maxIndexes {
			x = leastRecent(p.indexes, func(x *classIndex) uint64 { return x.lastUsed })
			delete(p.indexes, x.class.ID)
		}
		x.class = c
		p.indexes[c.ID] = x
		x.build(p)
	}
	x.lastUsed = p.uses
	x.follow(p)
	return x
}

// ranking returns the ranking of the class's size; it may be behind the snapshot.
func (p *Placer) ranking(c *cluster.Class) *ranking {
	if r := p.rankingByClass[c.ID]; r != nil {
		return r
	}
	p.scratch = c.AppendSize(p.scratch[:0])
	r := p.rankings[string(p.scratch)]
	if r == nil {
		r = &ranking{}
		if len(p.rankings) >= p.maxIndexes {
			r = leastRecent(p.rankings, func(r *ranking) uint64 { return r.lastUsed })
			delete(p.rankings, r.key)
			clear(p.rankingByClass)
		}
		r.key, r.class, r.generation = string(p.scratch), c, 0
		p.rankings[r.key] = r
	}
	if len(p.rankingByClass) >= maxKnownClasses {
		clear(p.rankingByClass)
	}
	p.rankingByClass[c.ID] = r
	return r
}

// leastRecent returns the value that was used longest ago; its memory serves the next.
func leastRecent[K comparable, V any](all map[K]V, used func(V) uint64) (oldest V) {
	first := true
	for _, x := range all {
		if first || used(x) < used(oldest) {
			oldest, first = x, false
		}
	}
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

// slotFollower keeps something for every slot.
type slotFollower interface {
	changed(p *Placer, slot cluster.Slot, redefined bool)
}

// replay tells a follower of the slots that changed since a revision, the newest change first: each once, unless a change of the given
// kinds, which redefine the slot for it, lies further back. What changed for reclaimed pods only, others are not told.
func (p *Placer) replay(since cluster.Revision, c *cluster.Class, redefines cluster.ChangeKind, to slotFollower) {
	log := p.snapshot.Log()
	unheard := cluster.Lent | cluster.Recalled
	if c.AsksReclaimed() {
		unheard = 0
	}
	p.epoch++
	for r := log.Len(); r > since; r-- {
		change := log.At(r - 1)
		if change.Kind&^unheard == 0 {
			continue
		}
		seen := p.stamp(change.Slot)
		if redefined := change.Kind&redefines != 0; redefined || !seen {
			to.changed(p, change.Slot, redefined)
		}
	}
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
