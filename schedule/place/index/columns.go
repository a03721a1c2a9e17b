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
	cursor   changes.Revision
	built    bool
}

func (d *denseColumn) follow(ix *Index) {
	s := &ix.snapshot.State
	log := s.Log()
	behind := log.Len() - d.cursor
	if !d.built || !log.Covers(d.cursor) || behind > changes.Revision(s.Slots()) {
		d.rows, d.outlines, d.ties, d.built = d.rows[:0], d.outlines[:0], d.ties[:0], true
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
	d.rows[slot].Fill(&ix.snapshot.State, slot)
	d.outlines[slot] = d.rows[slot].Outline()
	if ix.snapshot.Node(slot) != nil {
		d.ties[slot] = ix.Tie(slot)
	}
}
