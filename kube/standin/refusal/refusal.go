// Package refusal has the refusals of an API server that hilbertd tells apart by their words.
//
// It is shared by the stand-ins for an API server: the one of the tests (kube/standin) and the one of benchmarks (lab/standin), whose requests are
// played against a real API server too. Each function answers nil or the error that a client would read. It is not meant for production code.
package refusal

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var pods = schema.GroupResource{Resource: "pods"}

// Pod is the kind of pods, for UID and Version.
var Pod = schema.GroupKind{Kind: "Pod"}

// UID refuses a deletion of the object of that name, or an eviction, with a precondition that it does not meet; an empty precondition is met.
func UID(kind schema.GroupKind, name string, precondition, is types.UID) error {
	if precondition == "" || precondition == is {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
		"The object might have been deleted and then recreated", precondition, is))
}

// Update refuses an update of the object with that key with a UID that it does not have; without a UID it is met.
func Update(resource schema.GroupResource, key types.NamespacedName, uid, is types.UID) error {
	if uid == "" || uid == is {
		return nil
	}
	path := resource.Resource
	if resource.Group != "" {
		path = resource.Group + "/" + path
	}
	return apierrors.NewConflict(resource, key.Name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: /registry/%s/%s/%s, ResourceVersion: 0, "+
		"AdditionalErrorMsg: Precondition failed: UID in precondition: %v, UID in object meta: %v", path, key.Namespace, key.Name, uid, is))
}

// Binding refuses a Binding of a pod (nil: there is none) in the words of the real API server: those are all by which a client can tell the causes apart.
func Binding(name string, pod *corev1.Pod, uid types.UID) error {
	if pod == nil {
		return apierrors.NewNotFound(pods, name)
	}
	if err := Update(pods, types.NamespacedName{Namespace: pod.Namespace, Name: name}, uid, pod.UID); err != nil {
		return err
	}
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, name, fmt.Errorf(format, args...))
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return conflict("pod %s is being deleted, cannot be assigned to a host", name)
	case pod.Spec.NodeName != "":
		return conflict("pod %v is already assigned to node %q", name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return conflict("pod %v has non-empty .spec.schedulingGates", name)
	}
	return nil
}

// Version refuses a deletion of the object of that name with a precondition of another version than it has.
func Version(kind schema.GroupKind, name, precondition, is string) error {
	if precondition == is {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
		"The object might have been modified", precondition, is))
}
