package cluster

import "hilbert.dev/hilbert/topology"

// Snapshot is one scheduler's view of the ledger at a revision. It changes only by its owner's calls of Advance and Assume; the columns
// are its own, so the Store may move on meanwhile. Advance reads the Store and must not run beside a call that changes it.
//
// Its own log numbers its own changes (assumptions included); indexes over the snapshot follow that log.
type Snapshot struct {
	State
	revision Revision
	assumed  []Slot // slots that differ from the Store's because of Assume
}

// NewSnapshot returns an empty Snapshot at revision 0.
func NewSnapshot() *Snapshot { return &Snapshot{} }

// Revision is the Store's revision that the snapshot reflects.
func (s *Snapshot) Revision() Revision { return s.revision }

// Advance brings the snapshot to the Store's newest revision in time proportional to the changes since its own, and forgets what was
// assumed: the Store knows what became of it.
func (s *Snapshot) Advance(store *Store) {
	from := &store.State
	if !from.log.Covers(s.revision) || s.kinds == nil {
		s.copyAll(from)
		s.log.forget()
		s.assumed = s.assumed[:0]
		s.revision = from.log.Len()
		return
	}
	s.growKinds()
	for len(s.nodes) < len(from.nodes) {
		s.addSlot()
	}
	for _, slot := range s.assumed {
		s.copySlot(from, slot, false)
		s.log.append(Change{slot, Freed | Charged})
	}
	s.assumed = s.assumed[:0]
	for ; s.revision < from.log.Len(); s.revision++ {
		change := from.log.At(s.revision)
		s.copySlot(from, change.Slot, change.Kind&(Redefined|Reimaged) != 0)
		s.log.append(change)
	}
	s.learn()
}

// Assume charges a placement of the owner's own Plan to the snapshot, so that its next decision sees it before the Store has answered.
func (s *Snapshot) Assume(slot Slot, pod *Pod, grant topology.Grant) {
	s.charge(slot, pod.Class, grant)
	pod.eachTally(func(id TallyID) { s.bump(slot, id, 1) })
	s.assumed = append(s.assumed, slot)
	s.log.append(Change{slot, Charged})
}

// Verify counts every census of the snapshot anew and returns the first difference.
func (s *Snapshot) Verify() error { return s.verifyCensuses() }
