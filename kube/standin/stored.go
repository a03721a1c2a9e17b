package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"hilbert.dev/hilbert/kube/standin/refusal"
)

// What requests do to objects. Each method is one transaction and answers with a copy, or with the error that the real API server answers with.

var (
	podResource   = schema.GroupResource{Resource: "pods"}
	leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
)

func (s *Server) node(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[name].DeepCopy()
}

func (s *Server) bind(namespace, name string, b *corev1.Binding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[namespace+"/"+name].DeepCopy()
	if err := refusal.Binding(name, pod, b.UID); err != nil {
		return err
	}
	pod.Spec.NodeName = b.Target.Name
	for key, value := range b.Annotations {
		if pod.Annotations == nil {
			pod.Annotations = make(map[string]string)
		}
		pod.Annotations[key] = value
	}
	s.bound[string(pod.UID)]++
	s.setPod(pod)
	return nil
}

// patchPod changes a pod by a strategic merge patch.
func (s *Server) patchPod(namespace, name string, patch []byte) (*corev1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[namespace+"/"+name]
	if pod == nil {
		return nil, apierrors.NewNotFound(podResource, name)
	}
	old, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(old, patch, corev1.Pod{})
	patched := &corev1.Pod{}
	if err == nil {
		err = json.Unmarshal(merged, patched)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if patched.UID != pod.UID {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), patched.UID, "field is immutable"),
		})
	}
	s.setPod(patched)
	return patched.DeepCopy(), nil
}

// createLease makes a Lease that is not there yet.
func (s *Server) createLease(namespace string, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := namespace + "/" + lease.Name
	if s.leases[key] != nil {
		return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
	}
	s.history.stamp(lease)
	s.leases[key] = lease.DeepCopy()
	return lease, nil
}

// updateLease replaces a Lease of the version that the new one names.
func (s *Server) updateLease(namespace, name string, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := namespace + "/" + name
	switch known := s.leases[key]; {
	case known == nil:
		return nil, apierrors.NewNotFound(leaseResource, name)
	case lease.ResourceVersion != known.ResourceVersion:
		return nil, apierrors.NewConflict(leaseResource, name, errors.New("the object has been modified"))
	}
	s.history.stamp(lease)
	s.leases[key] = lease.DeepCopy()
	return lease, nil
}

// create makes an object without its status.
func (s *Server) create(resource, namespace string, object *unstructured.Unstructured) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := namespace + "/" + object.GetName()
	if s.others[resource][key] != nil {
		return apierrors.NewAlreadyExists(schema.ParseGroupResource(resource), object.GetName())
	}
	delete(object.Object, "status")
	object.SetUID(types.UID(fmt.Sprint("made-", s.history.now())))
	if resource == eventResource.String() {
		s.history.stamp(object)
	} else {
		s.history.note(resource, "ADDED", object, nil)
	}
	s.keep(resource, key, object.DeepCopy())
	return nil
}

// update gives an object the spec or status that next makes of it.
func (s *Server) update(q request, part string, next func(old *unstructured.Unstructured) (part any, err error)) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.others[q.resource][q.namespace+"/"+q.name].(*unstructured.Unstructured)
	if !ok {
		return nil, apierrors.NewNotFound(schema.ParseGroupResource(q.resource), q.name)
	}
	changed, err := next(old)
	if err != nil {
		return nil, err
	}
	object := old.DeepCopy()
	object.Object[part] = changed
	s.keep(q.resource, q.namespace+"/"+q.name, object)
	s.history.note(q.resource, "MODIFIED", object, old)
	return object.DeepCopy(), nil
}

// countEvent gives an event another series.
func (s *Server) countEvent(namespace, name string, series any) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	event, ok := s.others[eventResource.String()][namespace+"/"+name].(*unstructured.Unstructured)
	if !ok {
		return nil, apierrors.NewNotFound(eventResource, name)
	}
	event.Object["series"] = series
	return event.DeepCopy(), nil
}

// keep stores an object under its resource.
func (s *Server) keep(resource, key string, object runtime.Object) {
	if s.others[resource] == nil {
		s.others[resource] = make(map[string]runtime.Object)
	}
	s.others[resource][key] = object
}

// list returns what a resource holds, and the version that it is of.
func (s *Server) list(resource, selector string) (objects []runtime.Object, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects(resource, selector), s.history.now()
}

// objects lists what a resource holds now, in name order.
func (s *Server) objects(resource, selector string) []runtime.Object {
	byName := make(map[string]runtime.Object)
	switch resource {
	case "nodes":
		for name, node := range s.nodes {
			byName[name] = node.DeepCopy()
		}
	case "pods":
		for name, pod := range s.pods {
			if selected(selector, pod) {
				byName[name] = pod.DeepCopy()
			}
		}
	default:
		for name, object := range s.others[resource] {
			byName[name] = object.DeepCopyObject()
		}
	}
	out := make([]runtime.Object, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}
