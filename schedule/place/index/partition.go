package index

import (
	"encoding/binary"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// Partition divides the nodes by the values of some labels. A domain is the nodes that have equal values of all of them; a node that lacks
// a label is in none. Several labels make domains that lie within one another, whether or not the labels themselves nest. It follows the
// snapshot's log from its own cursor.
//
// Example: by block and rack, rack 1 of block a is another domain than rack 1 of block b.
type Partition struct {
	Keys       []string
	cursor     changes.Revision
	generation uint64 // changes when the domains are numbered anew
	lastUsed   uint64

	Domains      []domain
	Of, position []int32 // by slot: its domain (NoGroup for none), and where it stands in it
	byValues     map[string]int32
	scratch      []byte
}

// domain is one value of each of the partition's keys. It may have lost its last node.
type domain struct {
	Values []string
	Slots  []cluster.Slot // in no particular order
}

// MaxPartitions bounds how many combinations of labels are kept.
const MaxPartitions = 32

// Partition returns the nodes divided by some labels, up to date with the snapshot. Other partitions must not be kept meanwhile beyond
// maxPartitions calls with other keys.
func (ix *Index) Partition(keys []string) *Partition {
	ix.uses++
	ix.scratch = ix.scratch[:0]
	for _, key := range keys {
		ix.scratch = appendText(ix.scratch, key)
	}
	d := ix.partitions[string(ix.scratch)]
	if d == nil {
		if len(ix.partitions) >= MaxPartitions {
			oldest := leastRecent(ix.partitions, func(d *Partition) uint64 { return d.lastUsed })
			for name, d := range ix.partitions {
				if d == oldest {
					delete(ix.partitions, name)
				}
			}
		}
		d = &Partition{Keys: slices.Clone(keys), byValues: make(map[string]int32)}
		if ix.partitions == nil {
			ix.partitions = make(map[string]*Partition)
		}
		ix.partitions[string(ix.scratch)] = d
	}
	d.lastUsed = ix.uses
	d.follow(&ix.snapshot.State)
	return d
}

// follow brings the partition to the snapshot's newest change.
func (d *Partition) follow(s *cluster.State) {
	log := s.Log()
	if d.generation == 0 || !log.Covers(d.cursor) {
		d.build(s)
		return
	}
	d.grow(s.Slots())
	for ; d.cursor < log.Len(); d.cursor++ {
		if change := log.At(d.cursor); change.Kind&changes.Redefined != 0 {
			d.leave(change.Slot)
			d.enter(s, change.Slot)
		}
	}
}

func (d *Partition) build(s *cluster.State) {
	d.generation++
	d.Domains, d.Of, d.position = d.Domains[:0], d.Of[:0], d.position[:0]
	clear(d.byValues)
	d.grow(s.Slots())
	for slot := range s.Slots() {
		d.enter(s, cluster.Slot(slot))
	}
	d.cursor = s.Log().Len()
}

func (d *Partition) grow(slots int) {
	for len(d.Of) < slots {
		d.Of, d.position = append(d.Of, NoGroup), append(d.position, absent)
	}
}

// enter counts a slot in where its node's labels say; the slot must be in no domain.
func (d *Partition) enter(s *cluster.State, slot cluster.Slot) {
	node := s.Node(slot)
	if node == nil {
		return
	}
	d.scratch = d.scratch[:0]
	for _, key := range d.Keys {
		value, ok := labelOf(node, key)
		if !ok {
			return
		}
		d.scratch = appendText(d.scratch, value)
	}
	id, ok := d.byValues[string(d.scratch)]
	if !ok {
		id = int32(len(d.Domains))
		d.byValues[string(d.scratch)] = id
		values := make([]string, len(d.Keys))
		for i, key := range d.Keys {
			values[i], _ = labelOf(node, key)
		}
		d.Domains = append(d.Domains, domain{Values: values})
	}
	in := &d.Domains[id]
	d.Of[slot], d.position[slot] = id, int32(len(in.Slots))
	in.Slots = append(in.Slots, slot)
}

// labelOf is the value of a label, or of the field that selectors may name.
func labelOf(n *facts.Node, key string) (string, bool) {
	if key == facts.FieldName {
		return n.Name, true
	}
	value, ok := n.Labels[key]
	return value, ok
}

func (d *Partition) leave(slot cluster.Slot) {
	id := d.Of[slot]
	if id == NoGroup {
		return
	}
	in := &d.Domains[id]
	last := in.Slots[len(in.Slots)-1]
	in.Slots[d.position[slot]], d.position[last] = last, d.position[slot]
	in.Slots = in.Slots[:len(in.Slots)-1]
	d.Of[slot], d.position[slot] = NoGroup, absent
}

// Before orders domains by their labels' values, which do not depend on the order in which nodes came.
func (d *Partition) Before(a, b int32) bool {
	return slices.Compare(d.Domains[a].Values, d.Domains[b].Values) < 0
}

// appendText appends a string such that different sequences of strings never give equal bytes.
func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}
