package write

import (
	"context"
	"sync"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// writeOrder holds a Binding back while the condition of the same pod is being written. The API server sets PodScheduled=True when it binds. A condition that it
// took after that would say of a bound pod that it is not scheduled, until its kubelet says otherwise.
type writeOrder struct {
	mu         sync.Mutex
	conditions map[facts.UID]chan struct{} // under way, by pod; closed when the write has ended
}

func newWriteOrder() *writeOrder { return &writeOrder{conditions: make(map[facts.UID]chan struct{})} }

// orderedWrite is a write, and what it comes after.
type orderedWrite struct {
	bind.Write
	after <-chan struct{} // of a Binding: the pod's condition; nil: nothing
	done  chan struct{}   // of a condition: to be closed at its end
}

// add takes in a write. Call it in the order in which the writes are handed over.
func (o *writeOrder) add(write bind.Write) orderedWrite {
	w := orderedWrite{Write: write}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch write.Kind {
	case bind.WriteCondition:
		w.done = make(chan struct{})
		o.conditions[write.Pod] = w.done
	case bind.WriteBinding:
		w.after = o.conditions[write.Pod]
	default:
	}
	return w
}

// remove notes that a write has ended.
func (o *writeOrder) remove(w *orderedWrite) {
	if w.done == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	close(w.done)
	if o.conditions[w.Pod] == w.done {
		delete(o.conditions, w.Pod)
	}
}

// wait returns true when what comes before the write has ended, and false when the context ends first.
func (w *orderedWrite) wait(ctx context.Context) bool {
	if w.after == nil {
		return true
	}
	select {
	case <-w.after:
		return true
	case <-ctx.Done():
		return false
	}
}
