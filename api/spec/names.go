// Package spec is the API as the core sees it: the names of labels, annotations, resources and conditions, and the configuration as
// plain structs with one defaults function and one validation function.
//
// Invariants: it imports only the standard library, so that every package may depend on it; the Configuration that
// Default returns is valid.
//
// It is not the CRD types (those embed these structs under api/<group>/<version>), nor does it read files or environment.
package spec

//go:generate go tool -modfile=../../tools/generate/go.mod controller-gen object paths=.

// Names by which Hilbert is known to the API server.
const (
	// DefaultSchedulerName is the spec.schedulerName of the pods that Hilbert places.
	DefaultSchedulerName = "hilbert"
	// ConfigurationAPIVersion and ConfigurationKind head a configuration file.
	ConfigurationAPIVersion = "config.hilbert.dev/v1alpha1"
	ConfigurationKind       = "HilbertConfiguration"
	// SnapshotAPIVersion and SnapshotKind head a snapshot file.
	SnapshotAPIVersion = "snapshot.hilbert.dev/v1alpha1"
	SnapshotKind       = "HilbertSnapshot"
)

// Queues and gangs.
const (
	// LabelQueue stands on a namespace. It names the Queue that is charged for the namespace's pods.
	LabelQueue = "scheduling.hilbert.dev/queue"
	// LabelPodGroup stands on a pod. It names the pod's PodGroup of scheduling.x-k8s.io, where the API server has no PodGroup of its own.
	LabelPodGroup = "scheduling.x-k8s.io/pod-group"
	// LabelSubgroup stands on a pod. Members of a gang with the same value are packed together.
	LabelSubgroup = "scheduling.hilbert.dev/subgroup"
)

// Packing of a gang, on its PodGroup. Topologies are names of node labels. The PodGroup's own fields come first.
const (
	// AnnotationRequiredTopology is a node label: all nodes of the gang have the same value, or the gang waits.
	AnnotationRequiredTopology = "scheduling.hilbert.dev/required-topology"
	// AnnotationPreferredTopology is a node label: all nodes of the gang have the same value if that is possible.
	AnnotationPreferredTopology = "scheduling.hilbert.dev/preferred-topology"
	// AnnotationSpreadTopology is a node label: the gang is spread over its values.
	AnnotationSpreadTopology = "scheduling.hilbert.dev/spread-topology"
	// AnnotationUniform is a node label that must have one value on all nodes of the gang, for example LabelGPUModel.
	AnnotationUniform = "scheduling.hilbert.dev/uniform"
	// AnnotationSubgroupRequiredTopology is like AnnotationRequiredTopology, for the nodes of each subgroup.
	AnnotationSubgroupRequiredTopology = "scheduling.hilbert.dev/subgroup-required-topology"
	// AnnotationSubgroupPreferredTopology is like AnnotationPreferredTopology, for the nodes of each subgroup.
	AnnotationSubgroupPreferredTopology = "scheduling.hilbert.dev/subgroup-preferred-topology"
	// AnnotationTimeout is a duration such as 10m: how long the gang may wait until its condition says TimedOut.
	AnnotationTimeout = "scheduling.hilbert.dev/timeout"
)

// Labels of the pods of ResourceRequests. The role controller writes them.
const (
	// LabelResourceRequest stands on the pods of a ResourceRequest and names it.
	LabelResourceRequest = "hilbert.dev/resource-request"
	// LabelAsk stands on the pods of a ResourceRequest and names their ask.
	LabelAsk = "hilbert.dev/ask"
)

// Annotations of the pods of ResourceRequests. The role controller writes them.
const (
	// AnnotationAskIndex says which of the containers of its ask the pod is: 0 to count-1. The downward API tells the pod itself.
	AnnotationAskIndex = "hilbert.dev/ask-index"
	// AnnotationAskLocality says what the pod is bound to: `Nodes`, `Racks` or `Any`.
	AnnotationAskLocality = "hilbert.dev/ask-locality"
)

// AnnotationReservation stands on a Binding, and so on the pod: which place of a Reservation the pod has, as UID/index. Only the scheduler writes it.
const AnnotationReservation = "hilbert.dev/reservation"

// LabelMove stands on the Reservations of moves' targets. The role controller writes it.
const LabelMove = "hilbert.dev/move"

// AnnotationMove of such a Reservation says which pod is moved, from where, and why. The role controller writes it.
const AnnotationMove = "hilbert.dev/move-of"

// CriticalPriority is the priority from which on pods are the system's own.
const CriticalPriority = 2_000_000_000

// Reasons of the PodScheduled=False condition. They are bounded and stable: people alert on them.
const (
	// ReasonUnschedulable: no node fits now; the message counts why.
	ReasonUnschedulable = "Unschedulable"
	// ReasonUnsupportedConstraint: the pod has a constraint that Hilbert does not support yet; it stays pending.
	ReasonUnsupportedConstraint = "UnsupportedConstraint"
	// ReasonImpossibleRequest: the request contradicts itself; no node can ever fit it.
	ReasonImpossibleRequest = "ImpossibleRequest"
	// ReasonTooManyDifferentPods: as many pods that differ from one another wait in the namespace as may; the pod is looked at when there is room.
	ReasonTooManyDifferentPods = "TooManyDifferentPods"
	// ReasonBindingFailed: the API server refused the Binding; Hilbert tries again after a backoff.
	ReasonBindingFailed = "BindingFailed"
	// ReasonWaitingForPodGroup: the pod names a PodGroup that does not exist.
	ReasonWaitingForPodGroup = "WaitingForPodGroup"
	// ReasonInvalidPodGroup: a field of the PodGroup cannot be satisfied; the message names it.
	ReasonInvalidPodGroup = "InvalidPodGroup"
	// ReasonWaitingForMembers: fewer pods of the gang exist than must be placed together.
	ReasonWaitingForMembers = "WaitingForMembers"
	// ReasonWaitingForQuota: a Queue has reached its limit; the message names it.
	ReasonWaitingForQuota = "WaitingForQuota"
	// ReasonExceedsQuota: the pod or gang alone asks for more than a Queue's limit.
	ReasonExceedsQuota = "ExceedsQuota"
	// ReasonTopologyPlacementFailed: the gang would fit somewhere, but not packed as it asks.
	ReasonTopologyPlacementFailed = "TopologyPlacementFailed"
	// ReasonReserved: Hilbert reserves nodes for the gang.
	ReasonReserved = "Reserved"
	// ReasonTimedOut: the gang was not placed within its timeout. Hilbert keeps trying, without a reservation.
	ReasonTimedOut = "TimedOut"
	// ReasonScheduled, on a PodGroup: all members that the gang needs have a place.
	ReasonScheduled = "Scheduled"
)

// Reasons of Events about scheduling, with upstream's names and meaning.
const (
	// ReasonEventFailedScheduling: the pod or PodGroup waits; the message is that of its condition.
	ReasonEventFailedScheduling = "FailedScheduling"
	// ReasonEventScheduled: the pod was bound to a node, only with scheduling.events.scheduled; or all members that a PodGroup needs were.
	ReasonEventScheduled = "Scheduled"
	// ReasonEventPreempted: the pod was deleted, because another is to take its place; that one is named if it is of the same namespace.
	ReasonEventPreempted = "Preempted"
	// ReasonEventPlaceLost: a Reservation has lost places; the message has the reason of the first.
	ReasonEventPlaceLost = "PlaceLost"
)

// Reasons of evictions, on the pod that is to be evicted.
const (
	// ReasonGangDissolved: some members of its gang had a place, but the gang could not reach minCount.
	ReasonGangDissolved = "GangDissolved"
	// ReasonEvictedForPressure: its node requested the eviction of this reclaimed pod, and it was evicted.
	ReasonEvictedForPressure = "EvictedForPressure"
	// ReasonEvictedForBrokenPromise: its node could not give the pod what it was promised, and it was evicted to find a place elsewhere.
	ReasonEvictedForBrokenPromise = "EvictedForBrokenPromise"
	// ReasonEvictionRefusedByBudget: its node requested the eviction, and a PodDisruptionBudget does not allow it now.
	ReasonEvictionRefusedByBudget = "EvictionRefusedByBudget"
	// ReasonEvictionDelayed: its node requested the eviction, and the cluster's eviction budget delays it.
	ReasonEvictionDelayed = "EvictionDelayed"
)

// Reasons of a Queue's condition Ready, and of pods that wait for the Queue.
const (
	// ReasonQueueMissing: a namespace names a Queue that does not exist.
	ReasonQueueMissing = "QueueMissing"
	// ReasonQueueParentMissing: the parent that the Queue names does not exist.
	ReasonQueueParentMissing = "ParentMissing"
	// ReasonQueueParentCycle: the Queue is its own ancestor.
	ReasonQueueParentCycle = "ParentCycle"
	// ReasonQueueParentInvalid: a Queue above this one is not ready.
	ReasonQueueParentInvalid = "ParentInvalid"
	// ReasonQueueGuaranteeTooLarge: the guarantee is more than the Queue's own maximum, than its parent gives, or than the cluster has.
	ReasonQueueGuaranteeTooLarge = "GuaranteeTooLarge"
	// ReasonQueueResourceUnknown: the Queue names a resource or an amount that Hilbert cannot count.
	ReasonQueueResourceUnknown = "ResourceUnknown"
)
