package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// +kubebuilder:object:root=true

// ServiceProfile has the targets of a service, for example a run delay of at most 0.05 seconds per second. On each node the agent sizes the pool
// of the service's pods so that the targets are met. It has no status: each node steers by itself, and thousands of nodes would have to write one
// object. The agents' metrics show the effect.
type ServiceProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec spec.ServiceProfile `json:"spec"`
}

// +kubebuilder:object:root=true

// ServiceProfileList is a list of ServiceProfiles.
type ServiceProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []ServiceProfile `json:"items"`
}
