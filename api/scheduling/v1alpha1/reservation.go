package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +kubebuilder:object:root=true

// Reservation keeps places for pods that are to come: each of the size and with the constraints of a pod template. Only its owners may have them.
//
// For example, with count: 8, a template that asks for 8 GPUs and owners[0].podGroup: train, eight such places are kept for the PodGroup train while its Job is being
// prepared. They are charged to the queue of the namespace as the pods would be.
type Reservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ReservationSpec   `json:"spec,omitzero"`
	Status ReservationStatus `json:"status,omitzero"`
}

// +kubebuilder:object:generate=true

// ReservationSpec says what is kept, for whom and for how long. Only TTL may be changed.
type ReservationSpec struct {
	// Template is what each place is for. Its schedulerName says who keeps the places; its priority comes through priorityClassName alone.
	Template corev1.PodTemplateSpec `json:"template"`
	// Count is how many places there are: 1 to 256. 0 counts as 1.
	Count int32 `json:"count,omitempty"`
	// Owners are the pods of the namespace that may have the places: those that one of the entries is about.
	Owners []ReservationOwner `json:"owners"`
	// TTL is for how long the places are kept, from the creation of the Reservation. Empty: 24h.
	TTL *metav1.Duration `json:"ttl,omitempty"`
}

// +kubebuilder:object:generate=true

// ReservationOwner is about the pods for which all holds that it names.
type ReservationOwner struct {
	// Selector selects pods by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Controller is the pods' controller, for example a ReplicaSet or a Job.
	Controller *ReservationController `json:"controller,omitempty"`
	// PodGroup is the name of the gang that they are members of.
	PodGroup string `json:"podGroup,omitempty"`
}

// ReservationController names a controller of pods.
type ReservationController struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// +kubebuilder:object:generate=true

// ReservationStatus is how the places stand.
type ReservationStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Waiting, Reserved, Consumed and Lost count the places.
	Waiting  int32 `json:"waiting"`
	Reserved int32 `json:"reserved"`
	Consumed int32 `json:"consumed"`
	Lost     int32 `json:"lost"`
	// Places are those that have a state other than Waiting, by index.
	Places []ReservedPlace `json:"places,omitempty"`
	// Conditions has Ready: True while some places are reserved and none waits.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:generate=true

// ReservedPlace is one place of a Reservation.
type ReservedPlace struct {
	Index int32 `json:"index"`
	// State is Reserved, Consumed or Lost. It goes forward only.
	State string `json:"state"`
	// Node is where the place is, or was.
	Node string `json:"node,omitempty"`
	// Promises are the annotations that a Binding in this place would have: GPUs, network cards, NUMA nodes.
	Promises map[string]string `json:"promises,omitempty"`
	// Pod is the name of the pod that has consumed it.
	Pod string `json:"pod,omitempty"`
	// Reason and Message say why it was lost.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:root=true

// ReservationList is a list of Reservations.
type ReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Reservation `json:"items"`
}
