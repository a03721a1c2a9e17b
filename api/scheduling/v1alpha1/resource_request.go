package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +kubebuilder:object:root=true

// ResourceRequest asks for containers as an application master does: so many of this size, on these nodes, or in their racks, or anywhere. The controller makes a pod of the
// template for each container that is asked for, and says in the status which pod is where.
//
// For example, a master asks with asks[0].count: 8 for eight containers of 2 CPUs. It reads eight allocations, gives number 3 back with asks[0].release: [3] once it needs it no more,
// and asks for two more with count: 10.
type ResourceRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ResourceRequestSpec   `json:"spec,omitzero"`
	Status ResourceRequestStatus `json:"status,omitzero"`
}

// +kubebuilder:object:generate=true

// ResourceRequestSpec says what is asked for. Asks can be added and removed; of an ask, count, release and retries can be changed. A template that is changed
// is that of pods to come.
type ResourceRequestSpec struct {
	// Template is what each pod is made of. Without a schedulerName Hilbert schedules the pods, and without a restartPolicy it is Never: what ended is reported, and made anew elsewhere.
	Template corev1.PodTemplateSpec `json:"template"`
	// Gang has all pods started together or none of them. The counts of a gang stay as they are.
	Gang bool `json:"gang,omitempty"`
	// Asks are the containers that are asked for.
	Asks []ResourceAsk `json:"asks"`
}

// +kubebuilder:object:generate=true

// ResourceAsk asks for containers of one size and locality. They have the indices 0 to count-1.
type ResourceAsk struct {
	// Name tells the asks of a request apart.
	Name string `json:"name"`
	// Count is how many containers are asked for. More may be asked for later; with less, those of the highest indices are given back.
	Count int32 `json:"count"`
	// Release are the indices of containers that are given back. Their pods are deleted, and they are not made anew.
	Release []int32 `json:"release,omitempty"`
	// PriorityClassName is the PriorityClass of these pods; empty: the template's.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// Resources replace those of the template, by container.
	Resources []ContainerResources `json:"resources,omitempty"`
	// Locality says where the pods should be; left out: anywhere.
	Locality *ResourceLocality `json:"locality,omitempty"`
	// Retries is how often the pod of one index is made anew after it failed. Evictions do not count. Left out: 6.
	Retries *int32 `json:"retries,omitempty"`
}

// +kubebuilder:object:generate=true

// ContainerResources are the requests and limits of a container of the template.
type ContainerResources struct {
	// Name is the container's.
	Name     string              `json:"name"`
	Requests corev1.ResourceList `json:"requests,omitempty"`
	Limits   corev1.ResourceList `json:"limits,omitempty"`
}

// +kubebuilder:object:generate=true

// ResourceLocality says where pods should be: on the nodes, after a while in the racks or on the nodes, after another while anywhere.
type ResourceLocality struct {
	// Nodes are the best places.
	Nodes *NodeLocality `json:"nodes,omitempty"`
	// Racks are the next best.
	Racks *RackLocality `json:"racks,omitempty"`
	// ExcludedNodes are nodes where no pod may be.
	ExcludedNodes []string `json:"excludedNodes,omitempty"`
}

// +kubebuilder:object:generate=true

// NodeLocality names nodes.
type NodeLocality struct {
	Names []string `json:"names"`
	// RelaxAfter is how long a pod waits for these nodes before it may have others. Left out: for ever.
	RelaxAfter *metav1.Duration `json:"relaxAfter,omitempty"`
}

// +kubebuilder:object:generate=true

// RackLocality names racks, or whatever else a label tells apart.
type RackLocality struct {
	// Key is the label of nodes whose value names the rack; empty: topology.hilbert.dev/rack.
	Key    string   `json:"key,omitempty"`
	Values []string `json:"values"`
	// RelaxAfter is how long a pod then waits for these racks before it may be anywhere. Left out: for ever.
	RelaxAfter *metav1.Duration `json:"relaxAfter,omitempty"`
}

// +kubebuilder:object:generate=true

// ResourceRequestStatus is what has become of the asks.
type ResourceRequestStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Asked, Waiting, Allocated, Running, Succeeded, Failed and Released count the containers. Those that wait to be made anew count as Waiting.
	Asked     int32 `json:"asked"`
	Waiting   int32 `json:"waiting"`
	Allocated int32 `json:"allocated"`
	Running   int32 `json:"running"`
	Succeeded int32 `json:"succeeded"`
	Failed    int32 `json:"failed"`
	Released  int32 `json:"released"`
	// Allocations are the containers of which there is more to say than that they wait for their first node, by ask and index.
	Allocations []Allocation `json:"allocations,omitempty"`
	// Conditions has Ready: True while no container waits and none has failed for good; and Complete: True once each has ended.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:generate=true

// Allocation is one container that was asked for.
type Allocation struct {
	Ask   string `json:"ask"`
	Index int32  `json:"index"`
	// State is Waiting, Allocated (it has a node), Running, Backoff (it failed, and is made anew), Succeeded, Failed (for good), Releasing or Released.
	State string `json:"state"`
	// Pod and UID are the pod's that has it or last had it.
	Pod string `json:"pod,omitempty"`
	UID string `json:"uid,omitempty"`
	// Node is where the pod is or was.
	Node string `json:"node,omitempty"`
	// Locality is what the pod was bound to when it was made: Nodes, Racks or Any.
	Locality string `json:"locality,omitempty"`
	// Failures counts the pods of this index that failed.
	Failures int32 `json:"failures,omitempty"`
	// Since is when it came into this state.
	Since metav1.Time `json:"since,omitzero"`
	// Reason and Message say why it last failed.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:root=true

// ResourceRequestList is a list of ResourceRequests.
type ResourceRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []ResourceRequest `json:"items"`
}
