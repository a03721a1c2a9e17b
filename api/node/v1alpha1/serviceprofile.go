package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// ServiceProfile says how the pods of a service are to fare. The agents of the nodes where they run size their pools for that.
type ServiceProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   spec.ServiceProfile  `json:"spec"`
	Status ServiceProfileStatus `json:"status,omitzero"`
}

// ServiceProfileStatus says whether the profile is followed. No part of Hilbert writes it yet: agents tell of conflicts in events of the pods.
type ServiceProfileStatus struct {
	spec.ProfileStatus `json:",inline"`

	// Conditions has Ready; its reasons are those of api/spec.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ServiceProfileList is a list of ServiceProfiles.
type ServiceProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []ServiceProfile `json:"items"`
}
