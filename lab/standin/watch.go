package standin

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// serveWatch streams changes, and before them, where that is asked for, everything that there is.
func (h *handler) serveWatch(w http.ResponseWriter, r *http.Request, c *collection, q *query) {
	var first []byte
	var from int64
	switch {
	case q.initialEvents:
		var err error
		if first, from, err = c.initial(q); err != nil {
			h.fail(w, r, err)
			return
		}
	case q.version == "" || q.version == "0":
		// The real one sends what there is as ADDED, without the bookmark.
		objects, version := c.list(q.namespace, q.selected)
		from = version
		for _, o := range objects {
			event, err := c.form.event(watch.Added, o.encoded)
			if err != nil {
				h.fail(w, r, apierrors.NewInternalError(err))
				return
			}
			first = append(first, event...)
		}
	default:
		var err error
		if from, err = strconv.ParseInt(q.version, 10, 64); err != nil {
			h.fail(w, r, apierrors.NewBadRequest("resourceVersion: "+err.Error()))
			return
		}
	}
	next, known := c.position(from)
	w.Header().Set("Content-Type", c.form.watchType())
	w.WriteHeader(http.StatusOK)
	controller := http.NewResponseController(w)
	if !known { // the real one says it in the stream too
		status := apierrors.NewResourceExpired("too old resource version: " + q.version).Status()
		if expired, err := envelope(statusKind, &status); err == nil {
			event, _ := c.form.event(watch.Error, expired)
			_, _ = w.Write(event)
		}
		return
	}
	if _, err := w.Write(first); err != nil || controller.Flush() != nil {
		return
	}
	c.follow(r.Context(), next, q, func(events []byte) bool {
		_, err := w.Write(events)
		return err == nil && controller.Flush() == nil
	})
}

// initial is what a streamed list begins with: every object, and the bookmark that ends it.
func (c *collection) initial(q *query) (events []byte, version int64, err error) {
	objects, version := c.list(q.namespace, q.selected)
	for _, o := range objects {
		event, err := c.form.event(watch.Added, o.encoded)
		if err != nil {
			return nil, 0, apierrors.NewInternalError(err)
		}
		events = append(events, event...)
	}
	mark, err := c.form.empty(c.kind)
	if err != nil {
		return nil, 0, apierrors.NewInternalError(err)
	}
	mark.SetResourceVersion(format(version))
	mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	encoded, err := c.form.object(c.kind, mark)
	if err != nil {
		return nil, 0, apierrors.NewInternalError(err)
	}
	event, err := c.form.event(watch.Bookmark, encoded)
	if err != nil {
		return nil, 0, apierrors.NewInternalError(err)
	}
	return append(events, event...), version, nil
}

// position numbers the first change after a version; false: it is forgotten.
func (c *collection) position(version int64) (next int, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version < c.oldest {
		return 0, false
	}
	i, _ := slices.BinarySearchFunc(c.changes, version+1, func(ch *change, v int64) int { return int(ch.now.version - v) })
	return c.dropped + i, true
}

// follow sends the changes from a position on, several at once where the watch lags, until ctx ends, send fails or the position is forgotten.
func (c *collection) follow(ctx context.Context, next int, q *query, send func([]byte) bool) {
	const most = 64 // events in one write
	var batch []*change
	var out []byte
	for {
		c.mu.Lock()
		if next < c.dropped {
			c.mu.Unlock()
			return // the client comes again, and is told 410
		}
		pending := c.changes[next-c.dropped:]
		batch = append(batch[:0], pending[:min(len(pending), most)]...)
		wake := c.wake
		c.mu.Unlock()
		next += len(batch)
		out = out[:0]
		for _, ch := range batch {
			if q.namespace != "" && ch.now.object.GetNamespace() != q.namespace {
				continue
			}
			event, err := ch.seen(c.form, q.selected)
			if err != nil {
				return
			}
			out = append(out, event...)
		}
		if len(out) > 0 && !send(out) {
			return
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}
