package place

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
)

// capacityIndex is how many pods of a class each node could take beside those that run there, by every filter that looks at one node, and how many
// each domain of the partitions that somebody asked about. For pods that are alike and have no constraints between them it is exact;
// else it is an upper bound. It follows the snapshot's log from its own cursor.
type capacityIndex struct {
	class    *cluster.Class // any class of the size and selection
	key      string
	cursor   cluster.Revision
	built    bool
	lastUsed uint64

	pods   []int32 // by slot; shut where a static filter refuses the node
	total  int64   // the sum over all nodes
	totals []*domainTotals
}

// domainTotals is the room of each domain of a partition.
type domainTotals struct {
	partition  *partition
	generation uint64 // the partition's that the sums are of
	lastUsed   uint64
	of         []int32 // by slot: the domain in whose sum it is
	sums       []int64 // by domain
}

const (
	refused = int32(-1)
	// unlimitedPods is the room of a node for pods that take nothing of it.
	unlimitedPods = int32(1) << 20
	// maxTotals bounds the partitions of a room.
	maxTotals = 8
)

// capacity returns the class's, up to date with the snapshot.
func (p *Placer) capacity(c *cluster.Class) *capacityIndex {
	p.uses++
	x := p.capacityByClass[c.ID]
	if x == nil {
		x = p.findCapacity(c)
	}
	x.lastUsed = p.uses
	x.follow(p)
	return x
}

func (p *Placer) findCapacity(c *cluster.Class) *capacityIndex {
	if p.capacities == nil {
		p.capacities, p.capacityByClass = make(map[string]*capacityIndex), make(map[cluster.ClassID]*capacityIndex)
	}
	p.scratch = c.AppendSelection(c.AppendSize(p.scratch[:0]))
	x := p.capacities[string(p.scratch)]
	if x == nil {
		if len(p.capacities) >= p.maxIndexes {
			oldest := leastRecent(p.capacities, func(x *capacityIndex) uint64 { return x.lastUsed })
			delete(p.capacities, oldest.key)
			clear(p.capacityByClass)
		}
		x = &capacityIndex{class: c, key: string(p.scratch)}
		p.capacities[x.key] = x
	}
	if len(p.capacityByClass) >= maxKnownClasses {
		clear(p.capacityByClass)
	}
	p.capacityByClass[c.ID] = x
	return x
}

// byDomain returns the room of each domain of a partition that is up to date, as the room itself must be.
func (x *capacityIndex) byDomain(p *Placer, d *partition) []int64 {
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
	t.lastUsed = p.uses
	if t.generation != d.generation {
		t.build(x)
	}
	t.grow()
	return t.sums
}

// follow brings the room to the snapshot's newest change.
func (x *capacityIndex) follow(p *Placer) {
	log := p.snapshot.Log()
	behind := log.Len() - x.cursor
	if x.built && behind == 0 {
		return
	}
	s := &p.snapshot.State
	for _, t := range x.totals {
		t.partition.follow(s)
	}
	if !x.built || !log.Covers(x.cursor) || behind > cluster.Revision(s.Slots()) {
		x.build(p)
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
	p.replay(x.cursor, x.class, cluster.Redefined, x)
	x.cursor = log.Len()
}

func (x *capacityIndex) build(p *Placer) {
	s := &p.snapshot.State
	x.pods, x.total, x.built = x.pods[:0], 0, true
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
func (x *capacityIndex) changed(p *Placer, slot cluster.Slot, redefined bool) {
	old := int64(max(x.pods[slot], 0))
	x.pods[slot] = x.evaluate(&p.snapshot.State, slot, redefined)
	now := int64(max(x.pods[slot], 0))
	x.total += now - old
	for _, t := range x.totals {
		t.change(slot, old, now)
	}
}

// evaluate counts the pods that a node could take. Unless it is redefined, what static filters said of it holds.
func (x *capacityIndex) evaluate(s *cluster.State, slot cluster.Slot, redefined bool) int32 {
	if redefined {
		if s.Node(slot) == nil || !fitsIn(Static, s, slot, x.class) {
			return refused
		}
	} else if x.pods[slot] == refused {
		return refused
	}
	return podsThatPass(s, slot, x.class)
}

// build sums anew. Where the room's pods lag behind, changed makes up for it.
func (t *domainTotals) build(x *capacityIndex) {
	t.generation, t.of, t.sums = t.partition.generation, t.of[:0], t.sums[:0]
	t.grow()
	for slot, pods := range x.pods {
		if d := t.partition.of[slot]; d != noGroup {
			t.of[slot] = d
			t.sums[d] += int64(max(pods, 0))
		}
	}
}

func (t *domainTotals) grow() {
	for len(t.of) < len(t.partition.of) {
		t.of = append(t.of, noGroup)
	}
	for len(t.sums) < len(t.partition.domains) {
		t.sums = append(t.sums, 0)
	}
}

// change counts a slot's room out of the domain where it was, and into that where it is.
func (t *domainTotals) change(slot cluster.Slot, old, now int64) {
	if d := t.of[slot]; d != noGroup {
		t.sums[d] -= old
	}
	d := t.partition.of[slot]
	t.of[slot] = d
	if d != noGroup {
		t.sums[d] += now
	}
}

// podsThatPass is how many pods of the class, all together, pass the filters that look at one node. The static ones have agreed.
func podsThatPass(s *cluster.State, slot cluster.Slot, c *cluster.Class) int32 {
	if !fitsIn(Local, s, slot, c) {
		return 0
	}
	if len(c.Ports) > 0 {
		return 1 // the second would want the same ports
	}
	most := int64(unlimitedPods)
	for _, a := range c.Amounts {
		if a.Value > 0 {
			most = min(most, s.Free(slot, a.Kind)/a.Value)
		}
	}
	if c.AsksGrant() {
		var left unused
		v := left.load(s, slot)
		most = grantsThatFit(&v, &left, c, most)
	}
	return int32(most)
}
