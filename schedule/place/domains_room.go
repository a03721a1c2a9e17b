package place

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
)

// room is how many pods of a class each node could take beside those that run there, by every filter that looks at one node, and how many
// each domain of the partitions that somebody asked about. For pods that are alike and have no constraints between them it is exact;
// else it is an upper bound. It follows the snapshot's log from its own cursor.
type room struct {
	class    *cluster.Class // any class of the size and selection
	key      string
	cursor   cluster.Revision
	made     bool
	lastUsed uint64

	pods   []int32 // by slot; shut where a static filter refuses the node
	open   int64   // the sum over all nodes
	totals []*totals
}

// totals is the room of each domain of a partition.
type totals struct {
	partition *partition
	made      uint64 // the partition's that the sums are of
	lastUsed  uint64
	of        []int32 // by slot: the domain in whose sum it is
	sums      []int64 // by domain
}

const (
	shut = int32(-1)
	// unlimited is the room of a node for pods that take nothing of it.
	unlimited = int32(1) << 20
	// maxTotals bounds the partitions of a room.
	maxTotals = 8
)

// room returns the class's, up to date with the snapshot.
func (p *Placer) room(c *cluster.Class) *room {
	p.clock++
	x := p.roomOf[c.ID]
	if x == nil {
		x = p.findRoom(c)
	}
	x.lastUsed = p.clock
	x.follow(p)
	return x
}

func (p *Placer) findRoom(c *cluster.Class) *room {
	if p.rooms == nil {
		p.rooms, p.roomOf = make(map[string]*room), make(map[cluster.ClassID]*room)
	}
	p.scratch = c.AppendSelection(c.AppendSize(p.scratch[:0]))
	x := p.rooms[string(p.scratch)]
	if x == nil {
		if len(p.rooms) >= p.maxIndexes {
			oldest := leastRecent(p.rooms, func(x *room) uint64 { return x.lastUsed })
			delete(p.rooms, oldest.key)
			clear(p.roomOf)
		}
		x = &room{class: c, key: string(p.scratch)}
		p.rooms[x.key] = x
	}
	if len(p.roomOf) >= maxViews {
		clear(p.roomOf)
	}
	p.roomOf[c.ID] = x
	return x
}

// by returns the room of each domain of a partition that is up to date, as the room itself must be.
func (x *room) by(p *Placer, d *partition) []int64 {
	at := slices.IndexFunc(x.totals, func(t *totals) bool { return t.partition == d })
	if at < 0 {
		if len(x.totals) >= maxTotals {
			oldest := slices.MinFunc(x.totals, func(a, b *totals) int { return int(int64(a.lastUsed) - int64(b.lastUsed)) })
			x.totals = slices.DeleteFunc(x.totals, func(t *totals) bool { return t == oldest })
		}
		at = len(x.totals)
		x.totals = append(x.totals, &totals{partition: d})
	}
	t := x.totals[at]
	t.lastUsed = p.clock
	if t.made != d.made {
		t.build(x)
	}
	t.grow()
	return t.sums
}

// follow brings the room to the snapshot's newest change.
func (x *room) follow(p *Placer) {
	log := p.snapshot.Log()
	behind := log.Len() - x.cursor
	if x.made && behind == 0 {
		return
	}
	s := &p.snapshot.State
	for _, t := range x.totals {
		t.partition.follow(s)
	}
	if !x.made || !log.Covers(x.cursor) || behind > cluster.Revision(s.Slots()) {
		x.build(p)
		return
	}
	for len(x.pods) < s.Slots() {
		x.pods = append(x.pods, shut)
	}
	for _, t := range x.totals {
		if t.made == t.partition.made {
			t.grow()
		} else {
			t.build(x)
		}
	}
	p.replay(x.cursor, x.class, cluster.Redefined, x)
	x.cursor = log.Len()
}

func (x *room) build(p *Placer) {
	s := &p.snapshot.State
	x.pods, x.open, x.made = x.pods[:0], 0, true
	for i := range s.Slots() {
		x.pods = append(x.pods, shut)
		x.pods[i] = x.judge(s, cluster.Slot(i), true)
		x.open += int64(max(x.pods[i], 0))
	}
	for _, t := range x.totals {
		t.build(x)
	}
	x.cursor = s.Log().Len()
}

// changed takes in a slot's newest state.
func (x *room) changed(p *Placer, slot cluster.Slot, redefined bool) {
	old := int64(max(x.pods[slot], 0))
	x.pods[slot] = x.judge(&p.snapshot.State, slot, redefined)
	now := int64(max(x.pods[slot], 0))
	x.open += now - old
	for _, t := range x.totals {
		t.change(slot, old, now)
	}
}

// judge counts the pods that a node could take. Unless it is redefined, what static filters said of it holds.
func (x *room) judge(s *cluster.State, slot cluster.Slot, redefined bool) int32 {
	if redefined {
		if s.Node(slot) == nil || !fitsIn(Static, s, slot, x.class) {
			return shut
		}
	} else if x.pods[slot] == shut {
		return shut
	}
	return podsThatFit(s, slot, x.class)
}

// build sums anew. Where the room's pods lag behind, changed makes up for it.
func (t *totals) build(x *room) {
	t.made, t.of, t.sums = t.partition.made, t.of[:0], t.sums[:0]
	t.grow()
	for slot, pods := range x.pods {
		if d := t.partition.of[slot]; d != noGroup {
			t.of[slot] = d
			t.sums[d] += int64(max(pods, 0))
		}
	}
}

func (t *totals) grow() {
	for len(t.of) < len(t.partition.of) {
		t.of = append(t.of, noGroup)
	}
	for len(t.sums) < len(t.partition.domains) {
		t.sums = append(t.sums, 0)
	}
}

// change counts a slot's room out of the domain where it was, and into that where it is.
func (t *totals) change(slot cluster.Slot, old, now int64) {
	if d := t.of[slot]; d != noGroup {
		t.sums[d] -= old
	}
	d := t.partition.of[slot]
	t.of[slot] = d
	if d != noGroup {
		t.sums[d] += now
	}
}

// podsThatFit is how many pods of the class, all together, pass the filters that look at one node. The static ones have agreed.
func podsThatFit(s *cluster.State, slot cluster.Slot, c *cluster.Class) int32 {
	if !fitsIn(Local, s, slot, c) {
		return 0
	}
	if len(c.Ports) > 0 {
		return 1 // the second would want the same ports
	}
	most := int64(unlimited)
	for _, a := range c.Amounts {
		if a.Value > 0 {
			most = min(most, s.Free(slot, a.Kind)/a.Value)
		}
	}
	if c.AsksGrant() {
		var left rest
		v := left.of(s, slot)
		most = grantsThatFit(&v, &left, c, most)
	}
	return int32(most)
}
