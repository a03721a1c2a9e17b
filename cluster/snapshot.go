package cluster

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// Snapshot is one scheduler's view of the ledger at a revision. It changes only by its owner's calls of Advance and Assume; the columns
// are its own, so the Store may move on meanwhile. Advance reads the Store and must not run beside a call that changes it.
//
// Its own log numbers its own changes (assumptions included); indexes over the snapshot follow that log.
type Snapshot struct {
	State
	revision Revision
	assumed  []assumption // how it differs from the Store
}

// assumption is a change that only the snapshot has: a pod more on a slot, or (lifted) one less; or (opened) no reservation.
type assumption struct {
	slot           Slot
	pod            *Pod
	class          *Class
	held           holding
	ports          []facts.HostPort // of the node before
	lifted, opened bool
	reservation    ReservationID
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
	for i := range s.assumed {
		slot := s.assumed[i].slot
		s.copySlot(from, slot, 0)
		s.log.append(Change{slot, Freed | Charged})
	}
	s.assumed = s.assumed[:0]
	for ; s.revision < from.log.Len(); s.revision++ {
		change := from.log.At(s.revision)
		s.copySlot(from, change.Slot, change.Kind)
		s.log.append(change)
	}
	s.learn()
}

// Assume charges a placement of the owner's own Plan to the snapshot, so that its next decision sees it before the Store has answered.
func (s *Snapshot) Assume(slot Slot, pod *Pod, grant topology.Grant) {
	s.suppose(assumption{slot: slot, pod: pod, class: pod.Class, held: holdingOf(&grant)}, 1)
}

// Lift takes a pod off the node that the Store has it on, to ask what would fit then.
func (s *Snapshot) Lift(pod *Pod) {
	if pod.slot != NoSlot {
		s.suppose(assumption{slot: pod.slot, pod: pod, class: pod.Class, held: pod.holding(), lifted: true}, -1)
	}
}

// Open lifts the reservation of a node.
func (s *Snapshot) Open(slot Slot) {
	s.assumed = append(s.assumed, assumption{slot: slot, opened: true, reservation: s.reserved[slot]})
	s.reserved[slot] = NoReservation
	s.log.append(Change{slot, Freed})
}

// Mark is how far the assumptions go; Rollback takes back those made since.
func (s *Snapshot) Mark() int { return len(s.assumed) }

// Rollback takes back all assumptions since a Mark: the rows, tallies and censuses are as they were then. Advance forgets all assumptions, so
// that a Mark does not outlive it; nor may the Store have changed in between, for what a pod counts in is the Store's to say.
func (s *Snapshot) Rollback(mark int) {
	for i := len(s.assumed) - 1; i >= mark; i-- {
		a := s.assumed[i]
		switch {
		case a.opened:
			s.reserved[a.slot] = a.reservation
			s.log.append(Change{a.slot, Charged})
		case a.lifted:
			s.apply(a, 1)
			s.ports[a.slot] = a.ports // in their old order
		default:
			s.apply(a, -1)
			s.ports[a.slot] = a.ports
		}
	}
	s.assumed = s.assumed[:mark]
}

func (s *Snapshot) suppose(a assumption, sign int32) {
	a.ports = s.ports[a.slot]
	s.assumed = append(s.assumed, a)
	s.apply(a, sign)
}

// apply adds an assumption's pod, sign times, to its slot.
func (s *Snapshot) apply(a assumption, sign int32) {
	kind := Charged
	if sign > 0 {
		s.charge(a.slot, a.class, a.held)
	} else {
		s.discharge(a.slot, a.class, a.held)
		kind = Freed
	}
	a.pod.eachTally(func(id TallyID) { s.bump(a.slot, id, sign) })
	s.log.append(Change{a.slot, kind})
}

// Verify counts every census of the snapshot anew and returns the first difference.
func (s *Snapshot) Verify() error { return s.verifyCensuses() }
