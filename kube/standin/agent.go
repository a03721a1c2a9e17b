package standin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/kube/standin/refusal"
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

func (h *handler) serveNode(w http.ResponseWriter, name string) {
	node := h.server.node(name)
	if node == nil {
		h.fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name))
		return
	}
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	h.answer(w, http.StatusOK, node)
}

// read decodes an unstructured body.
func (h *handler) read(w http.ResponseWriter, r *http.Request) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &object.Object)
	}
	if err != nil {
		h.fail(w, apierrors.NewBadRequest(err.Error()))
		return nil
	}
	return object
}

// create makes an object without its status.
func (h *handler) create(w http.ResponseWriter, r *http.Request, resource, namespace string) {
	object := h.read(w, r)
	if object == nil {
		return
	}
	if err := h.server.create(resource, namespace, object); err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, http.StatusCreated, object.Object)
}

// putStatus replaces the status, of the object and the version that the body names.
func (h *handler) putStatus(w http.ResponseWriter, r *http.Request, q request) {
	object := h.read(w, r)
	if object == nil {
		return
	}
	next, err := h.server.update(q, "status", func(old *unstructured.Unstructured) (any, error) {
		switch {
		case object.GetResourceVersion() == "":
			return nil, apierrors.NewBadRequest("metadata.resourceVersion: must be specified for an update")
		case object.GetResourceVersion() != old.GetResourceVersion(), object.GetUID() != "" && object.GetUID() != old.GetUID():
			return nil, apierrors.NewConflict(schema.ParseGroupResource(q.resource), q.name, errors.New("the object has been modified"))
		}
		return object.Object["status"], nil
	})
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, http.StatusOK, next.Object)
}

// serveEvent creates an event, or counts it on.
func (h *handler) serveEvent(w http.ResponseWriter, r *http.Request, namespace, name string) {
	if r.Method == http.MethodPost {
		h.create(w, r, eventResource.String(), namespace)
		return
	}
	patch := h.read(w, r)
	if patch == nil {
		return
	}
	event, err := h.server.countEvent(namespace, name, patch.Object["series"])
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, http.StatusOK, event.Object)
}

// serveEviction is a deletion with its options in the body.
func (h *handler) serveEviction(w http.ResponseWriter, r *http.Request, namespace, name string) {
	eviction := h.read(w, r)
	if eviction == nil {
		return
	}
	uid, _, _ := unstructured.NestedString(eviction.Object, "deleteOptions", "preconditions", "uid")
	pod := h.server.Pod(namespace, name)
	if pod == nil {
		h.fail(w, apierrors.NewNotFound(podResource, name))
		return
	}
	if err := refusal.UID(refusal.Pod, name, types.UID(uid), pod.UID); err != nil {
		h.fail(w, err)
		return
	}
	if r.URL.Query().Get("dryRun") == "" {
		h.server.DeletePod(namespace, name)
	}
	h.answer(w, http.StatusCreated, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}
