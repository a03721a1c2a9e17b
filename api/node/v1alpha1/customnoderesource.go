package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// CustomNodeResource is what a node's agent says of it. It has the Node's name, and goes with the Node, which owns it.
type CustomNodeResource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status CustomNodeResourceStatus `json:"status,omitzero"`
}

// CustomNodeResourceStatus is the machine, who holds what of it, and when the agent looked.
type CustomNodeResourceStatus struct {
	spec.NodeStatus `json:",inline"`

	// ObservedAt is when the agent last vouched for all of this, by the node's clock.
	ObservedAt metav1.Time `json:"observedAt,omitzero"`
	// Conditions are AgentReady, NUMANodesClosed and UnlabelledBestEffort, for now; their reasons are those of api/spec.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CustomNodeResourceList is a list of CustomNodeResources.
type CustomNodeResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []CustomNodeResource `json:"items"`
}
