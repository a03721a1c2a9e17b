package standin

import (
	"encoding/json"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// event is one line of a watch.
type event struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

// serveWatch streams changes, and before them, where that is asked for, everything that there is.
func (h *handler) serveWatch(w http.ResponseWriter, r *http.Request, resource string) {
	query := r.URL.Query()
	selector := query.Get("fieldSelector")
	streamed := query.Get("sendInitialEvents") == "true"
	flusher, ok := w.(http.Flusher)
	if !ok {
		h.t.Error("stand-in: the response cannot be streamed")
		return
	}
	h.mu.Lock()
	refused := streamed && h.noStream
	h.mu.Unlock()
	if refused {
		h.fail(w, apierrors.NewBadRequest("sendInitialEvents is forbidden for watch"))
		return
	}
	var from int64
	var first []event
	if streamed {
		var objects []runtime.Object
		objects, from = h.server.list(resource, selector)
		for _, object := range objects {
			first = append(first, event{"ADDED", typed(object)})
		}
		first = append(first, event{"BOOKMARK", bookmark(h.server.example(resource), from)})
	} else if from, _ = strconv.ParseInt(query.Get("resourceVersion"), 10, 64); h.server.history.expired(from) {
		h.fail(w, apierrors.NewResourceExpired("too old resource version"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	encoder := json.NewEncoder(w)
	for i := range first {
		if encoder.Encode(&first[i]) != nil {
			return
		}
	}
	flusher.Flush()
	h.server.history.follow(r.Context(), resource, selector, from, func(e event) bool {
		ok := encoder.Encode(&e) == nil
		flusher.Flush()
		return ok
	})
}

// typed fills in what JSON needs and stored objects lack.
func typed(object runtime.Object) runtime.Object {
	object = object.DeepCopyObject()
	version, kind := kindOf(object)
	object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(version, kind))
	return object
}

func bookmark(example runtime.Object, version int64) runtime.Object {
	object := typed(example)
	meta, err := apimeta.Accessor(object)
	if err != nil {
		panic(err) // no kind of ours lacks metadata
	}
	meta.SetResourceVersion(format(version))
	meta.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return object
}
