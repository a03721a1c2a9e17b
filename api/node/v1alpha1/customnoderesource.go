package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// +kubebuilder:object:root=true

// CustomNodeResource is the report of a node's agent. It has the Node's name; the Node owns it, so it is deleted with the Node. The scheduler
// promises only what stands in it. For example, with
//
//	status: {mode: agent, topology: [{name: "0", type: NUMANode, allocatable: {cpus: 8}, allocations: [{pod: …, cpus: 2}]}]}
//
// the scheduler may promise 6 more CPUs of NUMA node 0, and takes the 2 for confirmed.
type CustomNodeResource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what hilbertd tells the agent; Status is what the agent reports.
	Spec   CustomNodeResourceSpec   `json:"spec,omitzero"`
	Status CustomNodeResourceStatus `json:"status,omitzero"`
}

// +kubebuilder:object:generate=true

// CustomNodeResourceSpec is what hilbertd tells the agent.
type CustomNodeResourceSpec struct {
	// RefusedEvictions are the pods of status.colocation.evictions that a disruption budget does not let go, the last time that hilbertd asked.
	RefusedEvictions []spec.PodRef `json:"refusedEvictions,omitempty"`
	// Configuration is the NodeConfiguration that is in force on the node; nil: none is, and the agent's file alone counts. Only the controller role writes it.
	Configuration *spec.WantedConfiguration `json:"configuration,omitempty"`
}

// +kubebuilder:object:generate=true

// CustomNodeResourceStatus is the machine, which pods hold what of it, and when the agent observed it.
type CustomNodeResourceStatus struct {
	spec.NodeStatus `json:",inline"`

	// ObservedAt is when the agent last observed all of this, by the node's clock.
	ObservedAt metav1.Time `json:"observedAt,omitzero"`
	// Conditions are AgentReady, NUMANodesClosed, UnlabelledBestEffort and BandwidthNotSeparated, for now; their reasons are those of api/spec.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true

// CustomNodeResourceList is a list of CustomNodeResources.
type CustomNodeResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []CustomNodeResource `json:"items"`
}
