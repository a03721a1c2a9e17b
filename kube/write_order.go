package kube

import (
	"context"
	"sync"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// toldPods are the pods that are just being told why they wait. A Binding waits for that: the API server sets PodScheduled=True as it binds, and a condition that
// came later would say of a bound pod that it is not scheduled, until its kubelet says better.
type toldPods struct {
	mu    sync.Mutex
	under map[facts.UID]chan struct{} // closed when the write has ended
}

// ordered is a write, and what it comes after.
type ordered struct {
	write bind.Write
	after <-chan struct{} // nil: nothing
	done  chan struct{}   // of a condition: closed at its end
}

// order takes in a write, in the order in which they are handed over.
func (t *toldPods) order(write bind.Write) ordered {
	next := ordered{write: write}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch write.Kind {
	case bind.WriteCondition:
		next.done = make(chan struct{})
		t.under[write.Pod] = next.done
	case bind.WriteBinding:
		next.after = t.under[write.Pod]
	default:
	}
	return next
}

// await returns when what comes before has ended; false: the time was over before that.
func (o *ordered) await(ctx context.Context) bool {
	if o.after == nil {
		return true
	}
	select {
	case <-o.after:
		return true
	case <-ctx.Done():
		return false
	}
}

// ended takes note that a write has ended.
func (t *toldPods) ended(o *ordered) {
	if o.done == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	close(o.done)
	if t.under[o.write.Pod] == o.done {
		delete(t.under, o.write.Pod)
	}
}
