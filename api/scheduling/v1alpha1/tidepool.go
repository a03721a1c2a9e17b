package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// +kubebuilder:object:root=true

// TidePool is nodes that change hands between online services and offline work, see spec.TidePool.
type TidePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   spec.TidePool  `json:"spec"`
	Status TidePoolStatus `json:"status,omitzero"`
}

// +kubebuilder:object:generate=true

// TidePoolStatus is what the role controller says of a TidePool, and all that it remembers of it.
type TidePoolStatus struct {
	spec.TidePoolStatus `json:",inline"`

	// Conditions are Valid and Satisfied; their reasons are those of api/spec.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true

// TidePoolList is a list of TidePools.
type TidePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []TidePool `json:"items"`
}
