package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
)

// slotFollower keeps something for every slot.
type slotFollower interface {
	changed(ix *Index, slot cluster.Slot, redefined bool)
}

// replay tells a follower of the slots that changed since a revision, the newest change first: each once, unless a change of the given
// kinds, which redefine the slot for it, lies further back. Changes that concern only reclaimed pods are left out for other
// pods, and what nodes use where no score reads it.
func (ix *Index) replay(since changes.Revision, c *cluster.Class, redefines changes.Kind, to slotFollower) {
	log := ix.snapshot.Log()
	unheard := changes.Lent | changes.Recalled
	if c.AsksReclaimed() {
		unheard = 0
	}
	if !ix.profile.ReadsLoad() {
		unheard |= changes.Measured
	}
	ix.epoch++
	for r := log.Len(); r > since; r-- {
		change := log.At(r - 1)
		if change.Kind&^unheard == 0 {
			continue
		}
		seen := ix.stamp(change.Slot)
		if redefined := change.Kind&redefines != 0; redefined || !seen {
			to.changed(ix, change.Slot, redefined)
		}
	}
}

// eachChanged visits the slots that changed since a revision, each once.
func (ix *Index) eachChanged(since changes.Revision, visit func(cluster.Slot)) {
	log := ix.snapshot.Log()
	ix.epoch++
	for r := since; r < log.Len(); r++ {
		if slot := log.At(r).Slot; !ix.stamp(slot) {
			visit(slot)
		}
	}
}

// stamp marks a slot in the current epoch and reports whether it was marked already.
func (ix *Index) stamp(slot cluster.Slot) bool {
	for len(ix.seen) <= int(slot) {
		ix.seen = append(ix.seen, 0)
	}
	if ix.seen[slot] == ix.epoch {
		return true
	}
	ix.seen[slot] = ix.epoch
	return false
}
