package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"hilbert.dev/hilbert/api/spec"
)

const (
	// Group and Version are the API group's.
	Group   = "scheduling.hilbert.dev"
	Version = "v1alpha1"
	// Queues is the resource of the Queues, which have no namespace.
	Queues = "queues"
	// Reservations is the resource of the Reservations, which have namespaces.
	Reservations = "reservations"
	// MovePrefix begins the names of Reservations that are targets of moves; the UID of the pod follows. Only the role controller creates such Reservations: a policy holds that.
	MovePrefix = "hilbert-move-"
	// ResourceRequests is the resource of the ResourceRequests, which have namespaces.
	ResourceRequests = "resourcerequests"
	// TidePools is the resource of the TidePools, which have no namespace.
	TidePools = spec.TidePoolPlural
)

// GroupVersion is the group and version of the types of this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme makes the types known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Queue{}, &QueueList{}, &Reservation{}, &ReservationList{}, &ResourceRequest{}, &ResourceRequestList{}, &TidePool{}, &TidePoolList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
