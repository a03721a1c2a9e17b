package cluster

import "hilbert.dev/hilbert/cluster/changes"

// Snapshot is one scheduler's view of the ledger at a revision. It changes only by its owner's calls of Advance and Assume; the columns
// are its own, so the Store may move on meanwhile. Advance reads the Store and must not run beside a call that changes it.
//
// Its own log numbers its own changes (assumptions included); indexes over the snapshot follow that log.
type Snapshot struct {
	State
	revision   changes.Revision
	optimistic bool
}

// NewSnapshot returns an empty Snapshot at revision 0.
func NewSnapshot() *Snapshot { return &Snapshot{} }

// NewOptimisticSnapshot returns one whose assumptions mostly come true. Its log does not name a slot on which Advance finds just what was assumed, so that no index
// evaluates it again.
func NewOptimisticSnapshot() *Snapshot { return &Snapshot{optimistic: true} }

// Revision is the Store's revision that the snapshot reflects.
func (s *Snapshot) Revision() changes.Revision { return s.revision }

// Advance brings the snapshot to the Store's newest revision in time proportional to the changes since its own, and forgets what was
// assumed: the Store knows what became of it.
func (s *Snapshot) Advance(store *Store) {
	from := &store.State
	s.chosen.forget()
	if !from.log.Covers(s.revision) || s.kinds == nil {
		s.copyAll(from)
		s.log.Forget()
		s.journal = s.journal[:0]
		s.revision = from.log.Len()
		return
	}
	s.fitKinds()
	for len(s.nodes) < len(from.nodes) {
		s.addSlot()
	}
	for i := range s.journal {
		slot := s.journal[i].slot
		if s.optimistic && s.agrees(from, slot) {
			s.touched[slot] = from.touched[slot]
			continue
		}
		s.copySlot(from, slot, 0)
		s.log.Append(changes.Change{Slot: slot, Kind: changes.Freed | changes.Charged})
	}
	s.journal = s.journal[:0]
	for ; s.revision < from.log.Len(); s.revision++ {
		change := from.log.At(s.revision)
		if s.optimistic && change.Kind&^(changes.Freed|changes.Charged|changes.Recounted) == 0 && s.agrees(from, change.Slot) {
			s.touched[change.Slot] = from.touched[change.Slot]
			continue
		}
		s.copySlot(from, change.Slot, change.Kind)
		s.log.Append(change)
	}
	s.counts.Learn()
}

// Verify counts every census of the snapshot anew and returns the first difference.
func (s *Snapshot) Verify() error { return s.counts.Verify() }
