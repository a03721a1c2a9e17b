package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +kubebuilder:object:root=true

// Queue is a tenant's share of the cluster: of a team, a project, or a kind of work. Namespaces feed it. Their pods are charged to it and to
// every Queue above it.
//
// For example, with guaranteed nvidia.com/gpu: 8 and max nvidia.com/gpu: 24 it gets 8 GPUs whenever its pods need them, may borrow up to 16 more
// while other Queues leave them idle, and gives those back when their owners need them.
type Queue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   QueueSpec   `json:"spec,omitzero"`
	Status QueueStatus `json:"status,omitzero"`
}

// +kubebuilder:object:generate=true

// QueueSpec is what a Queue may have, and in which order it serves what is below it. Amounts are written as in a ResourceQuota. nvidia.com/gpu
// counts whole GPUs, hilbert.dev/gpu-milli thousandths of one; if both are named, they are added up.
type QueueSpec struct {
	// Parent is the Queue above; empty: the root.
	Parent string `json:"parent,omitempty"`
	// Guaranteed is what the Queue gets back from borrowers whenever it needs it. A resource that is not named is not guaranteed.
	Guaranteed corev1.ResourceList `json:"guaranteed,omitempty"`
	// Max is never exceeded. A resource that is not named has no limit.
	Max corev1.ResourceList `json:"max,omitempty"`
	// Weight is the Queue's part, relative to its siblings, of what is not guaranteed to any Queue: 1 to 1,000,000. 0 counts as 1.
	Weight int64 `json:"weight,omitempty"`
	// SortPolicy is the order of what is directly below the Queue. Empty: Fair between Queues, PriorityFIFO between units.
	SortPolicy SortPolicy `json:"sortPolicy,omitempty"`
	// HistoryHalfLife is the time after which past use counts half, for FairHistory. Empty: 168h.
	HistoryHalfLife *metav1.Duration `json:"historyHalfLife,omitempty"`
	// Borrowing allows the Queue to use more than Guaranteed while other Queues leave it free. Empty: Allowed.
	Borrowing Permission `json:"borrowing,omitempty"`
	// Reclaim says whether what the Queue has borrowed may be taken back by eviction. Empty: Allowed.
	Reclaim Permission `json:"reclaim,omitempty"`
	// ReclaimMinRuntime is for how long a pod of the Queue has run before it may be evicted for another Queue. nil: as the Queue above says; the root
	// says 0s.
	ReclaimMinRuntime *metav1.Duration `json:"reclaimMinRuntime,omitempty"`
	// Preemption says which pods units of the Queue may evict within it. Empty: LowerPriority.
	Preemption PreemptionPolicy `json:"preemption,omitempty"`
	// NamespaceSelector selects, by their labels, namespaces that feed the Queue, unless their label scheduling.hilbert.dev/queue names
	// one. nil selects none, an empty one all.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// SortPolicy is the order in which a Queue serves what is directly below it.
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

// PreemptionPolicy says which pods units of a Queue may evict within it.
type PreemptionPolicy string

// The values of PreemptionPolicy.
const (
	PreemptLowerPriority PreemptionPolicy = "LowerPriority"
	PreemptNever         PreemptionPolicy = "Never"
)

// +kubebuilder:object:generate=true

// QueueStatus is what hilbertd last saw of a Queue. Amounts are of the Queue and all that is below it.
type QueueStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Used is what its pods hold, including pods whose Binding is under way.
	Used corev1.ResourceList `json:"used,omitempty"`
	// Borrowed is how much of Used is beyond what is guaranteed.
	Borrowed corev1.ResourceList `json:"borrowed,omitempty"`
	// FairShare is what the Queue would have now if no Queue had more than its fair share.
	FairShare corev1.ResourceList `json:"fairShare,omitempty"`
	// PendingUnits and PendingPods wait for a place; RunningPods have one.
	PendingUnits int32 `json:"pendingUnits"`
	PendingPods  int32 `json:"pendingPods"`
	RunningPods  int32 `json:"runningPods"`
	// Conditions has Ready: whether the Queue's pods can be placed. With status True it can still name a mistake that does not prevent that.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

const (
	// ConditionReady is True while the Queue's pods can be placed.
	ConditionReady = "Ready"
	// ReasonReady is Ready's reason when nothing is wrong; the others are those of api/spec.
	ReasonReady = "Ready"
)

// +kubebuilder:object:root=true

// QueueList is a list of Queues.
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Queue `json:"items"`
}
