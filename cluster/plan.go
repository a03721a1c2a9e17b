package cluster

import (
	"fmt"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/topology"
)

// Plan is the message from a scheduler to the binder: placements for one unit, all or nothing, and the revision of the snapshot that
// they were decided on.
type Plan struct {
	Placements []Placement
	// Victims must leave before the placements are bound: each before those on its node; one whose node gets none (the rest of a unit that
	// goes whole) before the first.
	Victims []facts.UID
	// Reclaims: the victims hold what their queues have borrowed, so that their priority does not protect them.
	Reclaims bool
	// Replaces are pods of one earlier Plan whose places wait for victims. They give those places up when this Plan is committed: what has been freed
	// for them stays theirs until then. Those that this Plan does not place are Pending afterwards.
	Replaces []facts.UID
	// Takes are placeholders whose rooms the placements have, one each, on the same nodes. They leave when the Plan is committed, and are back
	// if a Binding fails. A placement has one only if its pod is an owner. A Plan with Victims takes none.
	Takes []facts.UID
	// Decided is when the Plan was made, in nanoseconds as facts.Pod.Created. Until their Bindings say more, its pods run from then on.
	Decided int64
	// Through is the unit whose reserved nodes the placements may use, NoReservation for none.
	Through  ReservationID
	Revision changes.Revision
	// Scheduler is the instance that decided.
	Scheduler int
}

// Placement puts one pod on one node.
type Placement struct {
	Pod   facts.UID
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
	Revision changes.Revision
	// Placement is the index of the first placement that failed.
	Placement int
	// Short is the limit that leaves no room, with RejectQuota.
	Short quota.Shortfall
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
	RejectHeld = "the unit's PodGroup or queue is unknown or invalid"
	// RejectBelowMinCount: a unit of victims would be left with some of its members, but fewer than it needs.
	RejectBelowMinCount = "would leave the gang below minCount"
	// RejectPlaceholder: a placeholder is gone, or is not for a pod of the Plan on its node.
	RejectPlaceholder = "the reserved place is gone, or is not for the pod"
	// RejectVolumes: claims of the pod cannot be bound on the node any more.
	RejectVolumes = "the volumes are taken"
	// RejectDevices: the ResourceClaims of the pod cannot be given devices on the node any more.
	RejectDevices = "the devices are taken"
	// RejectPacking: members of a unit would be in several domains of a label of which it asks for one.
	RejectPacking = "the unit would not be packed as it asks"
)

// Release gives up a commitment whose binding did not happen: the pod is Pending again. No effect tells of that, and it may be held back by what has changed
// meanwhile: the caller asks Schedulable. It answers false when there is nothing to give up (the pod is gone, or was seen bound).
func (s *Store) Release(uid facts.UID) bool {
	pod := s.pods.byUID[uid]
	if pod == nil || pod.Phase != Assumed {
		return false
	}
	s.takeBack(pod)
	s.placeholders.giveBack(pod)
	s.catchUp(pod)
	return true
}

// takeBack makes a pod that has a place Pending again. What it has said of itself meanwhile is not taken in.
func (s *Store) takeBack(pod *Pod) {
	pod.Scheduled, pod.tookBack = 0, false
	s.unplace(pod)
	s.units.setPhase(pod, Pending)
}

// catchUp takes in what a pod has said of itself, and what has changed about it, while it had a place.
func (s *Store) catchUp(pod *Pod) {
	update := s.pods.updates[pod.UID]
	if update != nil {
		delete(s.pods.updates, pod.UID)
		s.observe(pod, update)
	}
	if pod.outdated || update != nil {
		pod.outdated = false
		s.classifier.refer(pod, s.classifier.classify(pod, true))
	}
}

// Confirm records that the API server took the Binding of an Assumed pod, before the watch says so.
func (s *Store) Confirm(uid facts.UID) {
	if pod := s.pods.byUID[uid]; pod != nil && pod.Phase == Assumed {
		delete(s.pods.updates, uid)
		s.placeholders.consumeTaken(pod)
		pod.spare(&s.victims)
		s.units.setPhase(pod, Bound)
		s.claims.hold(pod)
		s.classifier.count(pod)
		s.classifier.simplify(pod)
	}
}

func (v Verdict) String() string {
	if v.Committed {
		return fmt.Sprintf("committed at %d", v.Revision)
	}
	return fmt.Sprintf("rejected: %s (placement %d, retry at %d)", v.Reason, v.Placement, v.Revision)
}
