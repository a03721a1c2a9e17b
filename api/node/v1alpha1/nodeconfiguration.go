package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// +kubebuilder:object:root=true

// NodeConfiguration gives parameters to the agents of some nodes, by names, by labels or of all. A change reaches a few nodes first, is compared with the others there, and
// is taken back by itself where it harms. For example
//
//	spec: {nodeSelector: {matchLabels: {pool: web}}, parameters: {lending: {targetUtilization: 60}}}
type NodeConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   spec.NodeConfiguration  `json:"spec"`
	Status NodeConfigurationStatus `json:"status,omitzero"`
}

// +kubebuilder:object:generate=true

// NodeConfigurationStatus is what the controller role says of a NodeConfiguration, and all that it remembers of it.
type NodeConfigurationStatus struct {
	spec.NodeConfigurationStatus `json:",inline"`

	// Conditions are Valid and RolledOut; their reasons are those of control/config.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true

// NodeConfigurationList is a list of NodeConfigurations.
type NodeConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []NodeConfiguration `json:"items"`
}
