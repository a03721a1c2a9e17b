// Package spec is the API as the core sees it: the names of labels, annotations, resources and conditions, and the configuration as
// plain structs with one defaults function and one validation function.
//
// Invariants: it imports only the standard library, so that every package may depend on it; a zero Configuration passed through
// SetDefaults is valid.
//
// It is not the CRD types (those embed these structs under api/<group>/<version>), nor does it read files or environment.
package spec

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

// Names by which units and queues are asked for.
const (
	// LabelQueue of a namespace names the Queue that its pods are charged to.
	LabelQueue = "scheduling.hilbert.dev/queue"
	// LabelPodGroup of a pod names its PodGroup of scheduling.x-k8s.io, where the API server has none of its own.
	LabelPodGroup = "scheduling.x-k8s.io/pod-group"
	// LabelSubgroup of a pod names the part of its unit that is packed for itself.
	LabelSubgroup = "scheduling.hilbert.dev/subgroup"

	// Annotations of a PodGroup, each the name of a node label. What the PodGroup's own fields say comes first.
	AnnotationRequiredTopology  = "scheduling.hilbert.dev/required-topology"
	AnnotationPreferredTopology = "scheduling.hilbert.dev/preferred-topology"
	AnnotationSpreadTopology    = "scheduling.hilbert.dev/spread-topology"
	// AnnotationUniform is a node label that has one value on all nodes of the unit, for example LabelGPUModel.
	AnnotationUniform = "scheduling.hilbert.dev/uniform"
	// The same for each subgroup.
	AnnotationSubgroupRequiredTopology  = "scheduling.hilbert.dev/subgroup-required-topology"
	AnnotationSubgroupPreferredTopology = "scheduling.hilbert.dev/subgroup-preferred-topology"
	// AnnotationTimeout is a duration such as 10m: how long the unit may wait to become whole before it is said to have timed out.
	AnnotationTimeout = "scheduling.hilbert.dev/timeout"
)

// CriticalPriority is the priority from which on pods are the system's own.
const CriticalPriority = 2_000_000_000

// Reasons of the PodScheduled=False condition. They are bounded and stable: people alert on them.
const (
	// ReasonUnschedulable: no node fits now; the message counts why.
	ReasonUnschedulable = "Unschedulable"
	// ReasonUnsupportedConstraint: the pod asks for something that Hilbert cannot honour yet, so it is not placed at all.
	ReasonUnsupportedConstraint = "UnsupportedConstraint"
	// ReasonImpossibleRequest: the request contradicts itself; no node can ever fit it.
	ReasonImpossibleRequest = "ImpossibleRequest"
	// ReasonBindingFailed: the API server refused the Binding; it is tried again after a backoff.
	ReasonBindingFailed = "BindingFailed"
	// ReasonWaitingForPodGroup: the pod names a PodGroup that does not exist.
	ReasonWaitingForPodGroup = "WaitingForPodGroup"
	// ReasonInvalidPodGroup: the PodGroup asks for something that cannot be honoured; the message names the field.
	ReasonInvalidPodGroup = "InvalidPodGroup"
	// ReasonWaitingForMembers: fewer pods of the unit exist than must be placed together.
	ReasonWaitingForMembers = "WaitingForMembers"
	// ReasonWaitingForQuota: a queue's limit is reached; the message names it.
	ReasonWaitingForQuota = "WaitingForQuota"
	// ReasonExceedsQuota: the unit alone asks for more than a queue's limit.
	ReasonExceedsQuota = "ExceedsQuota"
	// ReasonTopologyPlacementFailed: the unit would fit somewhere, but not in one domain as it asks.
	ReasonTopologyPlacementFailed = "TopologyPlacementFailed"
	// ReasonReserved: nodes are being kept free for the unit.
	ReasonReserved = "Reserved"
	// ReasonTimedOut: the unit has not become whole in time. It is tried on, but nothing is kept free for it.
	ReasonTimedOut = "TimedOut"
	// ReasonGangDissolved, on a pod that is evicted: its unit has some places, but could not become whole.
	ReasonGangDissolved = "GangDissolved"
	// Of events on reclaimed pods that their node wants evicted: it is done, a disruption budget does not allow it now, or the cluster's budget
	// holds it back.
	ReasonEvictedForPressure      = "EvictedForPressure"
	ReasonEvictionRefusedByBudget = "EvictionRefusedByBudget"
	ReasonEvictionDelayed         = "EvictionDelayed"
	// ReasonScheduled: all members that the unit needs have a place.
	ReasonScheduled = "Scheduled"

	// What is wrong with a Queue, on the Queue and on the pods that wait for it.
	ReasonQueueMissing           = "QueueMissing"
	ReasonQueueParentMissing     = "ParentMissing"
	ReasonQueueParentCycle       = "ParentCycle"
	ReasonQueueParentInvalid     = "ParentInvalid"
	ReasonQueueGuaranteeTooLarge = "GuaranteeTooLarge"
	ReasonQueueResourceUnknown   = "ResourceUnknown"
)
