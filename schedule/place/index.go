package place

import (
	"hilbert.dev/hilbert/cluster"
)

// index keeps, for one class, every feasible node ordered by score. It follows the snapshot's log from its own cursor.
//
// Per slot: the group (by raw values of the normalised scores; noGroup when a static filter refuses), the position in the group's heap
// (absent when another filter refuses), and the key: local score above, hash of the node's name below, so that one comparison orders
// by score and then by the seeded tie-break.
type index struct {
	class    *cluster.Class
	cursor   cluster.Revision
	lastUsed uint64
	group    []int32
	position []int32
	key      []int64
	groups   []group
	byRaw    map[rawValues]int32
}

type group struct {
	raw  rawValues
	heap []cluster.Slot
}

const (
	noGroup = int32(-1)
	absent  = int32(-1)
	// tieBits of the key hold the tie-break, the rest the local score.
	tieBits = 32
)

func newIndex(class *cluster.Class) *index {
	return &index{class: class, byRaw: make(map[rawValues]int32)}
}

// build evaluates every slot.
func (x *index) build(p *Placer) {
	s := &p.snapshot.State
	x.groups, x.group, x.position, x.key = x.groups[:0], x.group[:0], x.position[:0], x.key[:0]
	clear(x.byRaw)
	x.grow(s.Slots())
	for i := range s.Slots() {
		x.redefine(p, cluster.Slot(i))
	}
	x.cursor = s.Log().Len()
}

func (x *index) grow(slots int) {
	for len(x.group) < slots {
		x.group = append(x.group, noGroup)
		x.position = append(x.position, absent)
		x.key = append(x.key, 0)
	}
}

// follow brings the index to the snapshot's newest change.
func (x *index) follow(p *Placer) {
	s := &p.snapshot.State
	log := s.Log()
	behind := log.Len() - x.cursor
	if behind == 0 {
		return
	}
	if !log.Covers(x.cursor) || behind > cluster.Revision(s.Slots()) {
		x.build(p)
		return
	}
	x.grow(s.Slots())
	p.epoch++
	for r := log.Len(); r > x.cursor; r-- { // newest first: each slot is evaluated once, unless it was also redefined before
		change := log.At(r - 1)
		seen := p.stamp(change.Slot)
		switch {
		case change.Kind&cluster.Redefined != 0:
			x.redefine(p, change.Slot)
		case !seen:
			x.update(p, change.Slot)
		}
	}
	x.cursor = log.Len()
}

// redefine evaluates a slot whose node has changed.
func (x *index) redefine(p *Placer, slot cluster.Slot) {
	s := &p.snapshot.State
	x.remove(slot)
	x.group[slot] = noGroup
	if !fitsStatic(s, slot, x.class) {
		return
	}
	raw := p.profile.raw(s.Node(slot), x.class)
	id, ok := x.byRaw[raw]
	if !ok {
		id = int32(len(x.groups))
		x.byRaw[raw] = id
		x.groups = append(x.groups, group{raw: raw})
	}
	x.group[slot] = id
	x.update(p, slot)
}

// update evaluates a slot on which less or more is free than before.
func (x *index) update(p *Placer, slot cluster.Slot) {
	if x.group[slot] == noGroup {
		return
	}
	s := &p.snapshot.State
	if !fitsDynamic(s, slot, x.class) {
		x.remove(slot)
		return
	}
	key := p.profile.localScore(s, slot, x.class)<<tieBits | int64(p.tie(slot))
	if x.position[slot] == absent {
		x.key[slot] = key
		g := &x.groups[x.group[slot]]
		g.heap = append(g.heap, slot)
		x.up(g, len(g.heap)-1)
		return
	}
	if old := x.key[slot]; key != old {
		x.key[slot] = key
		g := &x.groups[x.group[slot]]
		if key > old {
			x.up(g, int(x.position[slot]))
		} else {
			x.down(g, int(x.position[slot]))
		}
	}
}

// best returns the feasible node with the highest total score.
func (x *index) best(p *Placer) (cluster.Slot, bool) {
	var greatest rawValues
	for i := range x.groups {
		if g := &x.groups[i]; len(g.heap) > 0 {
			for k := range greatest {
				greatest[k] = max(greatest[k], g.raw[k])
			}
		}
	}
	best, bestKey := cluster.NoSlot, int64(0)
	for i := range x.groups {
		g := &x.groups[i]
		if len(g.heap) == 0 {
			continue
		}
		slot := g.heap[0]
		key := x.key[slot] + p.profile.normalizedScore(g.raw, greatest)<<tieBits
		if best == cluster.NoSlot || key > bestKey || (key == bestKey && slot < best) {
			best, bestKey = slot, key
		}
	}
	return best, best != cluster.NoSlot
}

func (x *index) above(a, b cluster.Slot) bool {
	return x.key[a] > x.key[b] || (x.key[a] == x.key[b] && a < b)
}

func (x *index) remove(slot cluster.Slot) {
	at := x.position[slot]
	if at == absent {
		return
	}
	x.position[slot] = absent
	g := &x.groups[x.group[slot]]
	last := len(g.heap) - 1
	moved := g.heap[last]
	g.heap = g.heap[:last]
	if int(at) == last {
		return
	}
	g.heap[at] = moved
	x.position[moved] = at
	x.down(g, int(at))
	x.up(g, int(x.position[moved]))
}

func (x *index) up(g *group, i int) {
	slot := g.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !x.above(slot, g.heap[parent]) {
			break
		}
		g.heap[i] = g.heap[parent]
		x.position[g.heap[i]] = int32(i)
		i = parent
	}
	g.heap[i] = slot
	x.position[slot] = int32(i)
}

func (x *index) down(g *group, i int) {
	slot := g.heap[i]
	for {
		child := 2*i + 1
		if child >= len(g.heap) {
			break
		}
		if right := child + 1; right < len(g.heap) && x.above(g.heap[right], g.heap[child]) {
			child = right
		}
		if !x.above(g.heap[child], slot) {
			break
		}
		g.heap[i] = g.heap[child]
		x.position[g.heap[i]] = int32(i)
		i = child
	}
	g.heap[i] = slot
	x.position[slot] = int32(i)
}
