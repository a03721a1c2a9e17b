package index

import (
	"encoding/binary"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// ownSelection is the nodes that pods of equal static requirements may use, where the shared node classes would have to be too many: in groups
// of equal raw values, and of equal domains of the soft spread constraints. Nobody else's groups depend on it.
type ownSelection struct {
	selection
	key      string
	of       []int32 // by slot: its group, NoGroup where it is refused
	nodes    int     // that are in a group
	cursor   changes.Revision
	built    bool
	lastUsed uint64
	spread   []string // topology keys
	byCoords map[string]int32
	scratch  []byte
}

// maxOwnSelections bounds how many are kept, of 4 bytes a node each.
const maxOwnSelections = 512

// ownSelection returns the class's, up to date with the snapshot.
func (ix *Index) ownSelection(c *cluster.Class) *ownSelection {
	s := &ix.snapshot.State
	spread := spreadOver(s, c)
	ix.scratch = c.AppendSelection(ix.scratch[:0])
	for _, key := range spread {
		ix.scratch = appendText(ix.scratch, key)
	}
	v := ix.own[string(ix.scratch)]
	if v == nil {
		if len(ix.own) >= maxOwnSelections {
			delete(ix.own, leastRecent(ix.own, func(v *ownSelection) uint64 { return v.lastUsed }).key)
		}
		v = &ownSelection{key: string(ix.scratch), spread: spread, byCoords: make(map[string]int32)}
		v.class = c
		ix.own[v.key] = v
	}
	v.lastUsed = ix.uses
	v.follow(ix)
	return v
}

func (v *ownSelection) follow(ix *Index) {
	s := &ix.snapshot.State
	log := s.Log()
	if !v.built || !log.Covers(v.cursor) || len(v.allowed) > 2*s.Slots()+64 {
		v.built, v.of, v.allowed, v.position, v.nodes = true, v.of[:0], v.allowed[:0], v.position[:0], 0
		clear(v.byCoords)
		ix.looked += s.Slots()
		for slot := range s.Slots() {
			v.of = append(v.of, NoGroup)
			v.assign(ix, cluster.Slot(slot))
		}
		v.cursor = log.Len()
		return
	}
	for len(v.of) < s.Slots() {
		v.of = append(v.of, NoGroup)
	}
	for ; v.cursor < log.Len(); v.cursor++ {
		if change := log.At(v.cursor); change.Kind&changes.Redefined != 0 {
			v.assign(ix, change.Slot)
		}
	}
}

// assign puts a node into its group.
func (v *ownSelection) assign(ix *Index, slot cluster.Slot) {
	if v.of[slot] != NoGroup {
		v.nodes--
	}
	v.of[slot] = v.groupOf(ix, slot)
	if v.of[slot] != NoGroup {
		v.nodes++
	}
}

func (v *ownSelection) groupOf(ix *Index, slot cluster.Slot) int32 {
	s := &ix.snapshot.State
	node := s.Node(slot)
	if node == nil || !rules.FitsIn(rules.Static, s, slot, v.class) {
		return NoGroup
	}
	raw := ix.profile.StaticValues(s, slot, v.class)
	b := v.scratch[:0]
	for _, value := range raw {
		b = binary.AppendVarint(b, value)
	}
	for _, key := range append(v.spread, facts.HostnameKey) {
		value, ok := node.Labels[key]
		switch {
		case !ok:
			b = append(b, 0)
		case key == facts.HostnameKey:
			b = append(b, 1)
		default:
			b = appendText(append(b, 1), value)
		}
	}
	v.scratch = b
	id, ok := v.byCoords[string(b)]
	if !ok {
		id = int32(len(v.allowed))
		v.byCoords[string(b)] = id
		v.allowed, v.position = append(v.allowed, allowedClass{nodeClass: id, raw: raw}), append(v.position, id)
	}
	return id
}

// readsCounts reports whether the class's constraints give nodes of one group different scores.
func readsCounts(c *census.Constraints) bool { return c != nil && len(c.Preferred) > 0 }
