package index

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// Capacity is how many pods of a class each node could take beside those that run there, by every filter that looks at one node; and how
// many each domain of the partitions that were asked about could take. It is exact for pods that are alike and have no constraints between
// them; for others it is an upper bound. It follows the snapshot's log from its own cursor.
//
// Example: a gang of 8 asks for one rack. Capacity.ByDomain has the sum of each rack at hand, and a pod that is placed changes two numbers:
// that of its node and that of its rack.
type Capacity struct {
	class    *cluster.Class // any class of the size and selection
	key      string
	cursor   changes.Revision
	built    bool
	lastUsed uint64

	pods   []int32 // by slot; refused where a static filter refuses the node
	total  int64   // the sum over all nodes
	totals []*domainTotals
}

// domainTotals is the capacity of each domain of a partition.
type domainTotals struct {
	partition  *Partition
	generation uint64 // the partition's that the sums are of
	lastUsed   uint64
	of         []int32 // by slot: the domain in whose sum it is
	sums       []int64 // by domain
}

const (
	refused = int32(-1)
	// maxTotals bounds the partitions of a Capacity.
	maxTotals = 8
)

// Capacity returns the class's, up to date with the snapshot.
func (ix *Index) Capacity(c *cluster.Class) *Capacity {
	ix.uses++
	x := ix.capacityByClass[c.ID]
	if x == nil {
		x = ix.findCapacity(c)
	}
	x.lastUsed = ix.uses
	x.follow(ix)
	return x
}

// KnowsCapacity reports whether there is a Capacity of the class already, so that asking for it costs little.
func (ix *Index) KnowsCapacity(c *cluster.Class) bool { return ix.capacityByClass[c.ID] != nil }

// Total is how many pods all nodes together could take.
func (x *Capacity) Total() int64 { return x.total }

// On is how many pods a node could take.
func (x *Capacity) On(slot cluster.Slot) int64 { return int64(max(x.pods[slot], 0)) }

func (ix *Index) findCapacity(c *cluster.Class) *Capacity {
	if ix.capacities == nil {
		ix.capacities, ix.capacityByClass = make(map[string]*Capacity), make(map[cluster.ClassID]*Capacity)
	}
	ix.scratch = c.AppendSelection(c.AppendSize(ix.scratch[:0]))
	x := ix.capacities[string(ix.scratch)]
	if x == nil {
		if len(ix.capacities) >= ix.maxIndexes {
			oldest := leastRecent(ix.capacities, func(x *Capacity) uint64 { return x.lastUsed })
			delete(ix.capacities, oldest.key)
			clear(ix.capacityByClass)
		}
		x = &Capacity{class: c, key: string(ix.scratch)}
		ix.capacities[x.key] = x
	}
	if len(ix.capacityByClass) >= maxKnownClasses {
		clear(ix.capacityByClass)
	}
	ix.capacityByClass[c.ID] = x
	return x
}

// ByDomain returns the capacity of each domain of a partition. Both must be up to date.
func (x *Capacity) ByDomain(ix *Index, d *Partition) []int64 {
	at := slices.IndexFunc(x.totals, func(t *domainTotals) bool { return t.partition == d })
	if at < 0 {
		if len(x.totals) >= maxTotals {
			oldest := slices.MinFunc(x.totals, func(a, b *domainTotals) int { return int(int64(a.lastUsed) - int64(b.lastUsed)) })
			x.totals = slices.DeleteFunc(x.totals, func(t *domainTotals) bool { return t == oldest })
		}
		at = len(x.totals)
		x.totals = append(x.totals, &domainTotals{partition: d})
	}
	t := x.totals[at]
	t.lastUsed = ix.uses
	if t.generation != d.generation {
		t.build(x)
	}
	t.grow()
	return t.sums
}

// follow brings the Capacity to the snapshot's newest change.
func (x *Capacity) follow(ix *Index) {
	log := ix.snapshot.Log()
	behind := log.Len() - x.cursor
	if x.built && behind == 0 {
		return
	}
	s := &ix.snapshot.State
	for _, t := range x.totals {
		t.partition.follow(s)
	}
	if !x.built || !log.Covers(x.cursor) || behind > changes.Revision(s.Slots()) {
		x.build(ix)
		return
	}
	for len(x.pods) < s.Slots() {
		x.pods = append(x.pods, refused)
	}
	for _, t := range x.totals {
		if t.generation == t.partition.generation {
			t.grow()
		} else {
			t.build(x)
		}
	}
	ix.replay(x.cursor, x.class, changes.Redefined, x)
	x.cursor = log.Len()
}

func (x *Capacity) build(ix *Index) {
	s := &ix.snapshot.State
	x.pods, x.total, x.built = x.pods[:0], 0, true
	ix.looked += s.Slots()
	for i := range s.Slots() {
		x.pods = append(x.pods, refused)
		x.pods[i] = x.evaluate(s, cluster.Slot(i), true)
		x.total += int64(max(x.pods[i], 0))
	}
	for _, t := range x.totals {
		t.build(x)
	}
	x.cursor = s.Log().Len()
}

// changed takes in a slot's newest state.
func (x *Capacity) changed(ix *Index, slot cluster.Slot, redefined bool) {
	old := int64(max(x.pods[slot], 0))
	x.pods[slot] = x.evaluate(&ix.snapshot.State, slot, redefined)
	now := int64(max(x.pods[slot], 0))
	x.total += now - old
	for _, t := range x.totals {
		t.change(slot, old, now)
	}
}

// evaluate counts the pods that a node could take. Unless it is redefined, what static filters said of it holds.
func (x *Capacity) evaluate(s *cluster.State, slot cluster.Slot, redefined bool) int32 {
	if redefined {
		if s.Node(slot) == nil || !rules.FitsIn(rules.Static, s, slot, x.class) {
			return refused
		}
	} else if x.pods[slot] == refused {
		return refused
	}
	return rules.PodsThatPass(s, slot, x.class)
}

// build adds everything up again. Where the counts lag behind, changed makes up for it.
func (t *domainTotals) build(x *Capacity) {
	t.generation, t.of, t.sums = t.partition.generation, t.of[:0], t.sums[:0]
	t.grow()
	for slot, pods := range x.pods {
		if d := t.partition.Of[slot]; d != NoGroup {
			t.of[slot] = d
			t.sums[d] += int64(max(pods, 0))
		}
	}
}

func (t *domainTotals) grow() {
	for len(t.of) < len(t.partition.Of) {
		t.of = append(t.of, NoGroup)
	}
	for len(t.sums) < len(t.partition.Domains) {
		t.sums = append(t.sums, 0)
	}
}

// change subtracts a slot's capacity from the domain where it was, and adds it to the one where it is.
func (t *domainTotals) change(slot cluster.Slot, old, now int64) {
	if d := t.of[slot]; d != NoGroup {
		t.sums[d] -= old
	}
	d := t.partition.Of[slot]
	t.of[slot] = d
	if d != NoGroup {
		t.sums[d] += now
	}
}
