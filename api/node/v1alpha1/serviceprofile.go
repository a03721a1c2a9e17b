package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// ServiceProfile says how the pods of a service are to fare. The agents of the nodes where they run size their pools for that. It has no status: each
// node steers by itself, thousands would have to write one object, and each tells in its own metrics what came of it.
type ServiceProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec spec.ServiceProfile `json:"spec"`
}

// ServiceProfileList is a list of ServiceProfiles.
type ServiceProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []ServiceProfile `json:"items"`
}
