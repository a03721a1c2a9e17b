package place

import (
	"encoding/binary"
	"slices"

	"hilbert.dev/hilbert/cluster"
)

// partition divides the nodes by the values of some labels: a domain is the nodes that have equal values of all of them, and a node that
// lacks one is in none. Several labels make domains that lie within one another, whether or not the labels themselves nest: rack 1 of
// block a is not rack 1 of block b. It follows the snapshot's log from its own cursor.
type partition struct {
	keys       []string
	cursor     cluster.Revision
	generation uint64 // changes when the domains are numbered anew
	lastUsed   uint64

	domains      []domain
	of, position []int32 // by slot: its domain (noGroup for none), and where it stands in it
	byValues     map[string]int32
	scratch      []byte
}

// domain is one value of each of the partition's keys. It may have lost its last node.
type domain struct {
	values []string
	slots  []cluster.Slot // in no particular order
}

// maxPartitions bounds how many combinations of labels are kept.
const maxPartitions = 32

// partition returns the nodes divided by some labels, up to date with the snapshot. Other partitions must not be kept meanwhile beyond
// maxPartitions calls with other keys.
func (ix *Index) partition(keys []string) *partition {
	ix.uses++
	ix.scratch = ix.scratch[:0]
	for _, key := range keys {
		ix.scratch = appendText(ix.scratch, key)
	}
	d := ix.partitions[string(ix.scratch)]
	if d == nil {
		if len(ix.partitions) >= maxPartitions {
			oldest := leastRecent(ix.partitions, func(d *partition) uint64 { return d.lastUsed })
			for name, d := range ix.partitions {
				if d == oldest {
					delete(ix.partitions, name)
				}
			}
		}
		d = &partition{keys: slices.Clone(keys), byValues: make(map[string]int32)}
		if ix.partitions == nil {
			ix.partitions = make(map[string]*partition)
		}
		ix.partitions[string(ix.scratch)] = d
	}
	d.lastUsed = ix.uses
	d.follow(&ix.snapshot.State)
	return d
}

// follow brings the partition to the snapshot's newest change.
func (d *partition) follow(s *cluster.State) {
	log := s.Log()
	if d.generation == 0 || !log.Covers(d.cursor) {
		d.build(s)
		return
	}
	d.grow(s.Slots())
	for ; d.cursor < log.Len(); d.cursor++ {
		if change := log.At(d.cursor); change.Kind&cluster.Redefined != 0 {
			d.leave(change.Slot)
			d.enter(s, change.Slot)
		}
	}
}

func (d *partition) build(s *cluster.State) {
	d.generation++
	d.domains, d.of, d.position = d.domains[:0], d.of[:0], d.position[:0]
	clear(d.byValues)
	d.grow(s.Slots())
	for slot := range s.Slots() {
		d.enter(s, cluster.Slot(slot))
	}
	d.cursor = s.Log().Len()
}

func (d *partition) grow(slots int) {
	for len(d.of) < slots {
		d.of, d.position = append(d.of, noGroup), append(d.position, absent)
	}
}

// enter counts a slot in where its node's labels say; the slot must be in no domain.
func (d *partition) enter(s *cluster.State, slot cluster.Slot) {
	node := s.Node(slot)
	if node == nil {
		return
	}
	d.scratch = d.scratch[:0]
	for _, key := range d.keys {
		value, ok := node.Labels[key]
		if !ok {
			return
		}
		d.scratch = appendText(d.scratch, value)
	}
	id, ok := d.byValues[string(d.scratch)]
	if !ok {
		id = int32(len(d.domains))
		d.byValues[string(d.scratch)] = id
		values := make([]string, len(d.keys))
		for i, key := range d.keys {
			values[i] = node.Labels[key]
		}
		d.domains = append(d.domains, domain{values: values})
	}
	in := &d.domains[id]
	d.of[slot], d.position[slot] = id, int32(len(in.slots))
	in.slots = append(in.slots, slot)
}

func (d *partition) leave(slot cluster.Slot) {
	id := d.of[slot]
	if id == noGroup {
		return
	}
	in := &d.domains[id]
	last := in.slots[len(in.slots)-1]
	in.slots[d.position[slot]], d.position[last] = last, d.position[slot]
	in.slots = in.slots[:len(in.slots)-1]
	d.of[slot], d.position[slot] = noGroup, absent
}

// before orders domains by their labels' values, which do not depend on the order in which nodes came.
func (d *partition) before(a, b int32) bool {
	return slices.Compare(d.domains[a].values, d.domains[b].values) < 0
}

// appendText appends a string such that different sequences of strings never give equal bytes.
func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}
