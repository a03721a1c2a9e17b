package standin

import (
	"context"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// history numbers the changes and tells watches of them. It protects one promise: a watch gets every change after its resource version, once and in order.
// For example, a watch from version 7 that starts at version 9 is told of changes 8 and 9, and then waits for 10.
type history struct {
	mu      sync.Mutex
	changed *sync.Cond
	version int64
	oldest  int64 // watches from before it are expired
	changes []change
	closing bool
}

// change is one entry of the history that watches read.
type change struct {
	version  int64
	resource string // a key of examples, or of optional
	kind     string // ADDED, MODIFIED, DELETED
	object   runtime.Object
	before   runtime.Object // what a MODIFIED object was
}

func newHistory() *history {
	h := &history{version: 1}
	h.changed = sync.NewCond(&h.mu)
	return h
}

// now is the resource version of the last change.
func (h *history) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version
}

// stamp gives an object the next resource version. Watches are not told.
func (h *history) stamp(object metav1.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	object.SetResourceVersion(format(h.version))
}

// note stamps an object and tells the watches. The watch itself finds that a MODIFIED pod left its selection, and says DELETED.
func (h *history) note(resource, kind string, object, before runtime.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	if meta, ok := object.(metav1.Object); ok {
		meta.SetResourceVersion(format(h.version))
	}
	h.changes = append(h.changes, change{h.version, resource, kind, object.DeepCopyObject(), before})
	h.changed.Broadcast()
}

// forget drops all changes, so that a watch cannot be resumed.
func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	h.oldest = h.version
	h.changes = nil
}

// expired reports whether a watch from a version has missed changes that are forgotten.
func (h *history) expired(from int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return from < h.oldest
}

// close ends the watches under way while yes; afterwards new ones may start.
func (h *history) close(yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing = yes
	h.changed.Broadcast()
}

// follow sends the changes after a version until ctx or the history ends the watch. The lock is held between sends.
func (h *history) follow(ctx context.Context, resource, selector string, from int64, send func(event) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if from < h.oldest {
		return // changes were forgotten since the watch was let in: the client comes again and is told
	}
	done := make(chan struct{})
	defer close(done)
	go func() { // wakes the wait below when the client goes away
		select {
		case <-ctx.Done():
			h.mu.Lock()
			h.changed.Broadcast()
			h.mu.Unlock()
		case <-done:
		}
	}()
	for {
		for i := 0; i < len(h.changes); i++ {
			c := h.changes[i]
			if c.version <= from {
				continue
			}
			from = c.version
			if e, ok := told(&c, resource, selector); ok && !send(e) {
				return
			}
		}
		if h.closing || ctx.Err() != nil {
			return
		}
		h.changed.Wait()
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

func format(version int64) string { return strconv.FormatInt(version, 10) }
