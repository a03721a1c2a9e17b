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
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, resource string) {
	query := r.URL.Query()
	selector := query.Get("fieldSelector")
	streamed := query.Get("sendInitialEvents") == "true"
	flusher, ok := w.(http.Flusher)
	if !ok {
		s.t.Error("stand-in: the response cannot be streamed")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if streamed && s.noStream {
		s.fail(w, apierrors.NewBadRequest("sendInitialEvents is forbidden for watch"))
		return
	}
	var from int64
	var first []event
	if streamed {
		from = s.version
		for _, object := range s.objects(resource, selector) {
			first = append(first, event{"ADDED", typed(object)})
		}
		first = append(first, event{"BOOKMARK", bookmark(s.example(resource), from)})
	} else if from, _ = strconv.ParseInt(query.Get("resourceVersion"), 10, 64); from < s.oldest {
		s.fail(w, apierrors.NewResourceExpired("too old resource version"))
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
	s.follow(r, resource, selector, from, func(e event) bool {
		ok := encoder.Encode(&e) == nil
		flusher.Flush()
		return ok
	})
}

// follow sends the changes after a version until the client or the server ends the watch. The lock is held between sends.
func (s *Server) follow(r *http.Request, resource, selector string, from int64, send func(event) bool) {
	done := make(chan struct{})
	defer close(done)
	go func() { // wakes the wait below when the client goes away
		select {
		case <-r.Context().Done():
			s.mu.Lock()
			s.changed.Broadcast()
			s.mu.Unlock()
		case <-done:
		}
	}()
	for {
		for i := 0; i < len(s.log); i++ {
			c := s.log[i]
			if c.version <= from {
				continue
			}
			from = c.version
			if e, ok := told(&c, resource, selector); ok && !send(e) {
				return
			}
		}
		if s.closing || r.Context().Err() != nil {
			return
		}
		s.changed.Wait()
	}
}

// told is what a watch with a selector says of a change.
func told(c *change, resource, selector string) (event, bool) {
	if c.resource != resource {
		return event{}, false
	}
	is, was := selected(selector, c.object), c.before != nil && selected(selector, c.before)
	switch {
	case c.kind == "DELETED":
		return event{"DELETED", typed(c.object)}, is
	case is && was:
		return event{"MODIFIED", typed(c.object)}, true
	case is:
		return event{"ADDED", typed(c.object)}, true
	}
	return event{"DELETED", typed(c.object)}, was
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
