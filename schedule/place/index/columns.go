package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// denseColumn is the Dense of every slot. It follows the snapshot's log from its own cursor.
type denseColumn struct {
	rows     []rules.Dense
	outlines []rules.Outline
	ties     []uint32
	states   *rules.GPUStates
	cursor   changes.Revision
	built    bool
	unknown  int    // nodes with GPUs whose state has no number
	numbered uint64 // counts how often all states got other numbers
}

func (d *denseColumn) follow(ix *Index) {
	s := &ix.snapshot.State
	log := s.Log()
	if d.states.Follow() {
		d.built = false
		d.numbered++
	}
	behind := log.Len() - d.cursor
	if !d.built || !log.Covers(d.cursor) || behind > changes.Revision(s.Slots()) {
		d.rows, d.outlines, d.ties, d.built = d.rows[:0], d.outlines[:0], d.ties[:0], true
		d.unknown = 0
		d.grow(s.Slots())
		for slot := range d.rows {
			d.fill(ix, cluster.Slot(slot))
		}
		d.cursor = log.Len()
		return
	}
	d.grow(s.Slots())
	ix.eachChanged(d.cursor, func(slot cluster.Slot) { d.fill(ix, slot) })
	d.cursor = log.Len()
}

func (d *denseColumn) grow(slots int) {
	for len(d.rows) < slots {
		d.rows, d.outlines, d.ties = append(d.rows, rules.Dense{}), append(d.outlines, rules.Outline{}), append(d.ties, 0)
	}
}

func (d *denseColumn) fill(ix *Index, slot cluster.Slot) {
	if d.rows[slot].HasUnknownGPUs() {
		d.unknown--
	}
	d.rows[slot].Fill(&ix.snapshot.State, slot, d.states)
	if d.rows[slot].HasUnknownGPUs() {
		d.unknown++
	}
	d.outlines[slot] = d.rows[slot].Outline()
	if ix.snapshot.Node(slot) != nil {
		d.ties[slot] = ix.Tie(slot)
	}
}
