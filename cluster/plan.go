package cluster

import (
	"fmt"

	"hilbert.dev/hilbert/topology"
)

// Plan is the message from a scheduler to the binder: placements for one unit, all or nothing, and the revision of the snapshot that
// they were decided on.
type Plan struct {
	Placements []Placement
	// Victims must leave before the placements are bound: each before those on its node; one whose node gets none (the rest of a unit that
	// goes whole) before the first.
	Victims []UID
	// Reclaims: the victims hold what their queues have borrowed, so that their priority does not protect them.
	Reclaims bool
	// Through is the unit whose reserved nodes the placements may use, NoReservation for none.
	Through  ReservationID
	Revision Revision
	// Scheduler is the instance that decided.
	Scheduler int
}

// Placement puts one pod on one node.
type Placement struct {
	Pod   UID
	Node  string
	Grant topology.Grant
}

// Check judges one placement against a state: the empty string, or the reason why the pod must not go there.
// schedule/place provides it from its filter table, so that commit and forecast are the same judgement.
type Check func(s *State, slot Slot, class *Class, grant *topology.Grant) string

// Verdict is the answer to a Plan.
type Verdict struct {
	Committed bool
	// Reason why not, and the revision that the scheduler must have seen before it tries the unit again.
	Reason   string
	Revision Revision
	// Placement is the index of the first placement that failed.
	Placement int
}

// Reasons of a rejection that do not come from a filter.
const (
	RejectPodGone  = "the pod is gone or placed already"
	RejectNodeGone = "the node is gone"
	// RejectVictimGone: a victim is not on a node of the Plan any more.
	RejectVictimGone = "a victim is gone"
	// RejectVictimOutranks: a victim has as high a priority as a pod that it should make room for.
	RejectVictimOutranks = "a victim is not of lower priority"
	// RejectQuota: a queue's limit would be exceeded.
	RejectQuota = "a queue's limit is reached"
	// RejectPartial: fewer members would have places than the unit needs.
	RejectPartial = "the unit would not be whole"
	// RejectHeld: the pod's PodGroup or its queue is not known, or not valid, any more.
	RejectHeld = "the unit's PodGroup or queue is in doubt"
	// RejectTorn: a unit of victims would be left with some of its members, but fewer than it needs.
	RejectTorn = "a unit would be torn"
	// RejectPacking: members of a unit would be in several domains of a label of which it asks for one.
	RejectPacking = "the unit would not be packed as it asks"
)

// Commit takes the Plan whole or not at all. On success each pod is Assumed and charged to its node; with victims beside them, and Obliged
// until they have left. The judgement is made as if they had.
func (s *Store) Commit(plan *Plan, check Check) Verdict {
	victims, reason := s.victims(plan)
	if reason != "" {
		return Verdict{Reason: reason, Revision: s.log.Len()}
	}
	s.judging = true
	s.lift(victims)
	opened := s.open(plan.Through)
	verdict := s.commitAll(plan, check)
	s.shut(plan.Through, opened)
	s.lower(victims)
	s.judging = false
	if verdict.Committed {
		s.claim(plan, victims)
	}
	return verdict
}

func (s *Store) commitAll(plan *Plan, check Check) Verdict {
	partial, spread := s.partial(plan), s.unpacked(plan)
	for i := range plan.Placements {
		p := &plan.Placements[i]
		if reason, seen := s.commitOne(p, check); reason != "" {
			s.undo(plan.Placements[:i])
			return Verdict{Reason: reason, Revision: seen, Placement: i}
		}
	}
	if partial >= 0 {
		s.undo(plan.Placements)
		return Verdict{Reason: RejectPartial, Revision: s.log.Len(), Placement: partial}
	}
	if spread >= 0 {
		s.undo(plan.Placements)
		return Verdict{Reason: RejectPacking, Revision: s.log.Len(), Placement: spread}
	}
	return Verdict{Committed: true, Revision: s.log.Len()}
}

// undo takes back placements of a Plan that is rejected.
func (s *Store) undo(placements []Placement) {
	for i := range placements {
		s.release(s.pods[placements[i].Pod])
	}
}

// partial returns the first placement whose unit is given fewer places than it needs, -1 if there is none. It is asked before the first is
// taken: one member placed makes a unit that was whole once look as if it ran.
func (s *Store) partial(plan *Plan) int {
	if len(s.units) == 0 {
		return -1
	}
	var last *Unit
	for i := range plan.Placements {
		pod := s.pods[plan.Placements[i].Pod]
		if pod == nil || pod.Unit == nil || pod.Unit == last {
			continue
		}
		last = pod.Unit
		if need := last.Need(); need > 1 && s.given(plan, last) < need {
			return i
		}
	}
	return -1
}

// given is how many members of a unit a Plan places.
func (s *Store) given(plan *Plan, u *Unit) (members int) {
	for i := range plan.Placements {
		if pod := s.pods[plan.Placements[i].Pod]; pod != nil && pod.Unit == u {
			members++
		}
	}
	return members
}

func (s *Store) commitOne(p *Placement, check Check) (reason string, seen Revision) {
	pod := s.pods[p.Pod]
	if pod == nil || pod.Phase != Pending || pod.Deleting {
		return RejectPodGone, s.log.Len()
	}
	if !pod.expected() {
		return RejectHeld, s.log.Len()
	}
	slot, ok := s.slots[p.Node]
	if !ok {
		return RejectNodeGone, s.log.Len()
	}
	grant := &p.Grant
	if grant.Milli > 0 && grant.Milli < topology.FullGPU && grant.Isolation == topology.IsolationAny {
		copied := p.Grant // a copy for all would be made on the heap
		account(&copied)
		grant = &copied
	}
	if reason := check(&s.State, slot, pod.Class, grant); reason != "" {
		return reason, s.touched[slot]
	}
	if _, ok := pod.Queue().Admits(pod.Class.Charge); !ok {
		return RejectQuota, s.log.Len()
	}
	s.place(pod, p.Node, &p.Grant)
	s.setPhase(pod, Assumed)
	return "", 0
}

// Release gives up a commitment whose binding did not happen: the pod is Pending again. It answers false when there is nothing to give
// up (the pod is gone, or was seen bound).
func (s *Store) Release(uid UID) bool {
	pod := s.pods[uid]
	if pod == nil || pod.Phase != Assumed {
		return false
	}
	s.release(pod)
	return true
}

func (s *Store) release(pod *Pod) {
	s.unplace(pod)
	s.setPhase(pod, Pending)
	if pod.outdated {
		pod.outdated = false
		s.reclass(pod, s.classify(pod, true))
	}
}

// Confirm records that the API server took the Binding of an Assumed pod, before the watch says so.
func (s *Store) Confirm(uid UID) {
	if pod := s.pods[uid]; pod != nil && pod.Phase == Assumed {
		s.spare(pod)
		s.setPhase(pod, Bound)
	}
}

func (v Verdict) String() string {
	if v.Committed {
		return fmt.Sprintf("committed at %d", v.Revision)
	}
	return fmt.Sprintf("rejected: %s (placement %d, retry at %d)", v.Reason, v.Placement, v.Revision)
}
