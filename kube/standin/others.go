package standin

import (
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// examples has an empty object of every resource that can be listed and watched.
var examples = map[string]runtime.Object{
	"nodes":                  &corev1.Node{},
	"pods":                   &corev1.Pod{},
	"namespaces":             &corev1.Namespace{},
	"services":               &corev1.Service{},
	"replicationcontrollers": &corev1.ReplicationController{},
	"replicasets":            &appsv1.ReplicaSet{},
	"statefulsets":           &appsv1.StatefulSet{},
	"poddisruptionbudgets":   &policyv1.PodDisruptionBudget{},
	"persistentvolumeclaims": &corev1.PersistentVolumeClaim{},
	"persistentvolumes":      &corev1.PersistentVolume{},
	"storageclasses":         &storagev1.StorageClass{},
	"csidrivers":             &storagev1.CSIDriver{},
	"csistoragecapacities":   &storagev1.CSIStorageCapacity{},
	"csinodes":               &storagev1.CSINode{},
	"volumeattachments":      &storagev1.VolumeAttachment{},
}

// Object is what Set and Delete take: any kind of examples but nodes and pods, which have methods of their own.
type Object interface {
	runtime.Object
	metav1.Object
}

// Set creates or replaces an object.
func (s *Server) Set(object Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, key := s.place(object)
	stored, ok := object.DeepCopyObject().(Object)
	if !ok {
		s.t.Fatalf("stand-in: the copy of a %T has another type", object)
	}
	before, known := s.others[resource][key]
	s.keep(resource, key, stored)
	if !known {
		s.history.note(resource, "ADDED", stored, nil)
		return
	}
	s.history.note(resource, "MODIFIED", stored, before)
}

// Delete deletes the object of that kind, namespace and name.
func (s *Server) Delete(object Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, key := s.place(object)
	if known, ok := s.others[resource][key]; ok {
		delete(s.others[resource], key)
		s.history.note(resource, "DELETED", known.DeepCopyObject(), nil)
	}
}

// place tells where an object is kept.
func (s *Server) place(object Object) (resource, key string) {
	key = object.GetNamespace() + "/" + object.GetName()
	if u, ok := object.(*unstructured.Unstructured); ok {
		gvk := u.GroupVersionKind()
		if resource = strings.ToLower(gvk.Kind) + "s." + gvk.Group; optional[resource] != "" {
			return resource, key
		}
	}
	for resource, example := range examples {
		if reflect.TypeOf(example) == reflect.TypeOf(object) {
			return resource, key
		}
	}
	s.t.Fatalf("stand-in: a %T has no place here", object)
	return "", ""
}

// kindOf is the version and kind that an object carries on the wire.
func kindOf(object runtime.Object) (version, kind string) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.GetAPIVersion(), u.GetKind()
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil || len(kinds) == 0 {
		panic(fmt.Sprintf("stand-in: a %T has no kind: %v", object, err))
	}
	return kinds[0].GroupVersion().String(), kinds[0].Kind
}
