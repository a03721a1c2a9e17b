package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Queue is one of those who share the cluster: a team, a project, a kind of work. Namespaces feed it; their pods are charged to it and
// to every Queue above it.
type Queue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   QueueSpec   `json:"spec,omitzero"`
	Status QueueStatus `json:"status,omitzero"`
}

// QueueSpec is what a Queue may have and how it serves those under it. Amounts are written as in a ResourceQuota: nvidia.com/gpu counts
// whole GPUs, hilbert.dev/gpu-milli thousandths of one, and both together are summed.
type QueueSpec struct {
	// Parent is the Queue above; empty: the root.
	Parent string `json:"parent,omitempty"`
	// Guaranteed is what the Queue gets back from borrowers whenever it wants it. What is not named is not guaranteed.
	Guaranteed corev1.ResourceList `json:"guaranteed,omitempty"`
	// Max is never exceeded. What is not named has no limit.
	Max corev1.ResourceList `json:"max,omitempty"`
	// Weight of its part of what nobody has a guarantee for, against its siblings': 1 to 1,000,000. 0 counts as 1.
	Weight int64 `json:"weight,omitempty"`
	// SortPolicy says who under the Queue is served first. Empty: Fair between Queues, PriorityFIFO between units.
	SortPolicy SortPolicy `json:"sortPolicy,omitempty"`
	// HistoryHalfLife is how long it takes until what was used counts half, for FairHistory; empty: 168h.
	HistoryHalfLife *metav1.Duration `json:"historyHalfLife,omitempty"`
	// Borrowing allows to use more than Guaranteed while others leave it free. Empty: Allowed.
	Borrowing Permission `json:"borrowing,omitempty"`
	// Reclaim says whether what the Queue has borrowed may be taken back by eviction. Empty: Allowed.
	Reclaim Permission `json:"reclaim,omitempty"`
	// Preemption says whom units of the Queue may evict within it. Empty: LowerPriority.
	Preemption PreemptionPolicy `json:"preemption,omitempty"`
	// NamespaceSelector selects, by their labels, namespaces that feed the Queue, unless their label scheduling.hilbert.dev/queue names
	// one. nil selects none, an empty one all.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// SortPolicy is the order in which a Queue serves what is directly under it.
type SortPolicy string

// The sort policies; facts.SortPolicy says what they mean.
const (
	SortPriorityFIFO  SortPolicy = "PriorityFIFO"
	SortFIFO          SortPolicy = "FIFO"
	SortFair          SortPolicy = "Fair"
	SortFairHistory   SortPolicy = "FairHistory"
	SortSmallestFirst SortPolicy = "SmallestFirst"
)

// Permission allows something or not.
type Permission string

// The values of Permission.
const (
	Allowed Permission = "Allowed"
	Never   Permission = "Never"
)

// PreemptionPolicy says whom units of a Queue may evict within it.
type PreemptionPolicy string

// The values of PreemptionPolicy.
const (
	PreemptLowerPriority PreemptionPolicy = "LowerPriority"
	PreemptNever         PreemptionPolicy = "Never"
)

// QueueStatus is what hilbertd last saw of a Queue. Amounts are of the Queue and all that is below it.
type QueueStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Used is what its pods hold, those whose Binding is under way included.
	Used corev1.ResourceList `json:"used,omitempty"`
	// Borrowed is how much of Used is beyond what is guaranteed.
	Borrowed corev1.ResourceList `json:"borrowed,omitempty"`
	// FairShare is what the Queue would have now if nobody had more than is fair.
	FairShare corev1.ResourceList `json:"fairShare,omitempty"`
	// PendingUnits and PendingPods wait for a place; RunningPods have one.
	PendingUnits int32 `json:"pendingUnits"`
	PendingPods  int32 `json:"pendingPods"`
	RunningPods  int32 `json:"runningPods"`
	// Conditions has Ready: whether the Queue gives places. With status True it can still name a mistake that does not keep it from that.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

const (
	// ConditionReady is True while the Queue gives places.
	ConditionReady = "Ready"
	// ReasonReady is Ready's reason when nothing is wrong; the others are those of api/spec.
	ReasonReady = "Ready"
)

// QueueList is a list of Queues.
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Queue `json:"items"`
}
