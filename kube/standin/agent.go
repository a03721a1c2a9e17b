package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// What the agent of a node asks for, and hilbertd does not.

// eventResource has the events, which nobody watches here.
var eventResource = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}

// Events returns copies of the events by namespace/name.
func (s *Server) Events() map[string]*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*unstructured.Unstructured)
	for key, object := range s.others[eventResource.String()] {
		if u, ok := object.(*unstructured.Unstructured); ok {
			out[key] = u.DeepCopy()
		}
	}
	return out
}

func (s *Server) serveNode(w http.ResponseWriter, name string) {
	s.mu.Lock()
	node := s.nodes[name].DeepCopy()
	s.mu.Unlock()
	if node == nil {
		s.fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name))
		return
	}
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	s.answer(w, http.StatusOK, node)
}

// read decodes an unstructured body.
func (s *Server) read(w http.ResponseWriter, r *http.Request) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &object.Object)
	}
	if err != nil {
		s.fail(w, apierrors.NewBadRequest(err.Error()))
		return nil
	}
	return object
}

// create makes an object without its status.
func (s *Server) create(w http.ResponseWriter, r *http.Request, q request) {
	object := s.read(w, r)
	if object == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := q.namespace + "/" + object.GetName()
	if s.others[q.resource][key] != nil {
		s.fail(w, apierrors.NewAlreadyExists(schema.ParseGroupResource(q.resource), object.GetName()))
		return
	}
	if s.others[q.resource] == nil {
		s.others[q.resource] = make(map[string]runtime.Object)
	}
	delete(object.Object, "status")
	object.SetUID(types.UID(fmt.Sprint("made-", s.version)))
	s.others[q.resource][key] = object
	if q.resource == eventResource.String() {
		s.version++
		object.SetResourceVersion(format(s.version))
	} else {
		s.note(q.resource, "ADDED", object, nil)
	}
	s.answer(w, http.StatusCreated, object.Object)
}

// putStatus replaces the status, of the object and the version that the body names.
func (s *Server) putStatus(w http.ResponseWriter, r *http.Request, q request) {
	object := s.read(w, r)
	if object == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := schema.ParseGroupResource(q.resource)
	old, ok := s.others[q.resource][q.namespace+"/"+q.name].(*unstructured.Unstructured)
	switch {
	case !ok:
		s.fail(w, apierrors.NewNotFound(resource, q.name))
		return
	case object.GetResourceVersion() == "":
		s.fail(w, apierrors.NewBadRequest("metadata.resourceVersion: must be specified for an update"))
		return
	case object.GetResourceVersion() != old.GetResourceVersion(), object.GetUID() != "" && object.GetUID() != old.GetUID():
		s.fail(w, apierrors.NewConflict(resource, q.name, errors.New("the object has been modified")))
		return
	}
	next := old.DeepCopy()
	next.Object["status"] = object.Object["status"]
	s.others[q.resource][q.namespace+"/"+q.name] = next
	s.note(q.resource, "MODIFIED", next, old)
	s.answer(w, http.StatusOK, next.Object)
}

// serveEvent creates an event, or counts it on.
func (s *Server) serveEvent(w http.ResponseWriter, r *http.Request, namespace, name string) {
	if r.Method == http.MethodPost {
		s.create(w, r, request{resource: eventResource.String(), namespace: namespace})
		return
	}
	patch := s.read(w, r)
	if patch == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	event, ok := s.others[eventResource.String()][namespace+"/"+name].(*unstructured.Unstructured)
	if !ok {
		s.fail(w, apierrors.NewNotFound(eventResource, name))
		return
	}
	event.Object["series"] = patch.Object["series"]
	s.answer(w, http.StatusOK, event.Object)
}

// serveEviction is a deletion with its options in the body.
func (s *Server) serveEviction(w http.ResponseWriter, r *http.Request, namespace, name string) {
	eviction := s.read(w, r)
	if eviction == nil {
		return
	}
	uid, _, _ := unstructured.NestedString(eviction.Object, "deleteOptions", "preconditions", "uid")
	s.mu.Lock()
	pod := s.pods[namespace+"/"+name].DeepCopy()
	s.mu.Unlock()
	switch {
	case pod == nil:
		s.fail(w, apierrors.NewNotFound(podResource, name))
	case uid != "" && uid != string(pod.UID):
		//nolint:staticcheck // ST1005: this is how the real one spells it
		s.fail(w, apierrors.NewConflict(podResource, name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, pod.UID)))
	default:
		if r.URL.Query().Get("dryRun") == "" {
			s.DeletePod(namespace, name)
		}
		s.answer(w, http.StatusCreated, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	}
}
