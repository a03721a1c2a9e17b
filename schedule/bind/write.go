package bind

import (
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
	"hilbert.dev/hilbert/topology"
)

// WriteKind is what a Write does.
type WriteKind uint8

const (
	// WriteBinding binds a pod to a node, once, with the pod's UID as a precondition. The shell starts it once the writes that it has begun about the pod's
	// status have ended, so that none of them is about a pod that runs.
	WriteBinding WriteKind = iota + 1
	// WriteCondition sets the pod's PodScheduled=False condition. With Withdraw it clears status.nominatedNodeName, too.
	WriteCondition
	// ReadPod reads the pod with a consistent read, to learn what became of a Binding whose outcome is unknown.
	ReadPod
	// WriteNomination sets the pod's status.nominatedNodeName and, as WriteCondition does, why it has to wait.
	WriteNomination
	// WriteDisruption sets a victim's DisruptionTarget condition.
	WriteDisruption
	// DeletePod deletes a victim with its own grace period, with its UID as a precondition.
	DeletePod
	// WriteUnitCondition sets the PodGroupInitiallyScheduled condition of a PodGroup; once it is True it stays so.
	WriteUnitCondition
	// EvictPod asks the Eviction API to let a pod go, with its UID as a precondition.
	EvictPod
	// WriteEvent tells an event of the pod, or of the PodGroup Unit: Condition has its reason and its note.
	WriteEvent
	// WriteRefusals tells the agent of a node which of the evictions that it requests a disruption budget refuses: Refused, all of them. It has no Pod.
	WriteRefusals
	// WriteNodeEvent tells an event that the agent of Node reports, of the pod or, without one, of the node. Condition has its reason and its note, Series how often
	// it was. With Known it was written before, and is counted on.
	WriteNodeEvent
	// WriteVolume tells a claim the node for which a volume is to be provisioned, with the claim's UID as a precondition, or a volume its claim, with the volume's
	// version as a precondition. Conflict: somebody else has changed the volume.
	WriteVolume
	// WriteClaim gives a ResourceClaim its finalizer, or its devices and the reservation for the pod, or that alone, with the claim's UID as a precondition.
	WriteClaim
	// GiveBackClaim takes the reservation for the pod, and if nobody else uses it the devices, off a ResourceClaim again. Result.Version is the claim's.
	GiveBackClaim
	// WriteReservation sets the status of a Reservation: all that Reservation says. It has no Pod.
	WriteReservation
)

// Owner is the component that handed out a write and takes its result.
type Owner uint8

const (
	// OwnerPlacement: the Binder's nominations, Bindings and reads.
	OwnerPlacement Owner = iota + 1
	// OwnerEviction: the Binder's writes about victims.
	OwnerEviction
	// OwnerCondition: the Binder's conditions of pods and PodGroups.
	OwnerCondition
	// OwnerRelief: the evictions that nodes request, and their events (schedule/relief).
	OwnerRelief
	// OwnerEvents: the events that nodes report (schedule/events).
	OwnerEvents
	// OwnerPodEvents: the events about pods that wait or were placed (schedule/events).
	OwnerPodEvents
	// OwnerClaims: the Binder's GiveBackClaim.
	OwnerClaims
	// OwnerReservations: the status of Reservations (schedule/reserve).
	OwnerReservations
)

// WriteID identifies a write. A result carries the ID of its write; the owner in the ID takes the result.
type WriteID struct {
	Owner Owner
	// Number is never given out twice by one owner.
	Number uint64
}

// Write is an API call that the shell has to make. It is data, so a test or the simulator can answer it in any order, late, or with any outcome. The shell
// answers each Write with exactly one Result.
type Write struct {
	ID              WriteID
	Kind            WriteKind
	Pod             facts.UID
	Namespace, Name string

	Node      string                // WriteBinding: where to; WriteNomination: where the pod will go
	Grant     topology.Grant        // WriteBinding: the GPUs, zero for none
	Reclaimed spec.ReclaimedAmounts // WriteBinding: what a reclaimed pod may have
	// Priority of WriteBinding is the pod's, where TellsPriority: the node has an agent, which orders pods by it and is not told by the kubelet.
	Priority      int32
	TellsPriority bool
	// Resources of WriteBinding is what containers of the pod ask for of the resources that plugins of the node's agent bring, as spec.FormatResources has it.
	Resources string
	// Placeholder of WriteBinding is the place of a Reservation whose room the pod has; empty: none.
	Placeholder facts.UID
	Condition   facts.Condition // WriteCondition, WriteNomination: why the pod waits; WriteDisruption: why it has to leave

	// Withdraw of WriteCondition: the pod's nomination came to nothing. The Condition may be empty then: it stays as it is.
	Withdraw bool

	Volume   volumes.Obligation // WriteVolume
	Claim    dra.Obligation     // WriteClaim
	GiveBack dra.GiveBack       // GiveBackClaim
	Related  PodName            // WriteEvent: the other pod that it is about; zero for none

	Refused []PodName // WriteRefusals
	// Reservation of WriteReservation; it must not be changed.
	Reservation *cluster.ReservationView
	Series      Series // WriteNodeEvent
	Known       bool   // WriteNodeEvent

	// Of WriteUnitCondition, which has no Pod: the PodGroup, and what it should say. UnitUID is that of this PodGroup, and of the one that a WriteEvent is about.
	Unit          facts.UnitName
	UnitUID       facts.UID
	UnitCondition facts.UnitCondition
}

// Series is how often an event was, from First to Last, in nanoseconds.
type Series struct {
	Count       int32
	First, Last int64
}

// PodName names one pod.
type PodName struct {
	Namespace, Name string
	UID             facts.UID
}

// Outcome is what became of a Write.
type Outcome uint8

const (
	// Written: the API server did it. For ReadPod, Result.Node says where the pod is bound (empty: unbound).
	Written Outcome = iota + 1
	// Gone: there is no such pod, or another has its name.
	Gone
	// Conflict: the pod is bound already, here or elsewhere.
	Conflict
	// Refused: the API server said no, and nothing was written.
	Refused
	// Unknown: a timeout or a lost connection; it may or may not have been written.
	Unknown
	// NotSent: it certainly never left this process (leadership was running out, or the process stops).
	NotSent
	// Withheld: a disruption budget does not let the pod go now.
	Withheld
)

// Result answers a Write. The Outcome says what is certain: Written and Gone are, while after Unknown the API server may or may not have done it, so the
// pod keeps its node.
type Result struct {
	ID      WriteID
	Outcome Outcome
	Node    string // ReadPod: where the pod is bound
	Version uint64 // GiveBackClaim: of the object as it was written
	Message string // Refused, Unknown: why, for people
}
