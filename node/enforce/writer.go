package enforce

import (
	"context"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// DesiredKnob is a knob and the value that it should have.
type DesiredKnob struct {
	Knob
	Value string
}

// Desire is a DesiredKnob by its parts.
func Desire(cgroup, file, value string) DesiredKnob {
	return DesiredKnob{Knob: Knob{Cgroup: cgroup, File: file}, Value: value}
}

// Pod is a pod's cgroup below the root of the hierarchy, and its level.
type Pod struct {
	Cgroup string
	Level  spec.QoSLevel
	// Background: it has said that its traffic is the least important.
	Background bool
}

// Writer writes the desired knobs of one owner to the kernel, in a goroutine of its own. Requests that come while it works are merged, so that it
// always works for the newest knobs and falls behind by no more than one round: ten changes of a pool while the kernel moves a large pod cost one
// write of each knob.
type Writer struct {
	kernel Kernel
	owner  Owner
	table  *Table
	owned  map[Knob]bool     // what the table has of the owner's
	report func(WriteResult) // called by the writer's goroutine; must not wait for the writer

	wake chan struct{}
	mu   sync.Mutex
	next WriteRequest
}

// WriteRequest is what a Writer is asked to do next.
type WriteRequest struct {
	Knobs   []DesiredKnob // all of them
	Changed bool          // Knobs are new
	Recheck []string      // cgroups that another process may have changed
	Tick    bool          // compare everything

	waiters []chan struct{} // closed when it is done
}

// WriteResult is what came of it.
type WriteResult struct {
	Outcome Outcome
	Knobs   int
	Tick    bool
	Took    time.Duration
	Errs    []error // files that are no knobs: mistakes of ours
}

// NewWriter returns a Writer that works while Run runs.
func NewWriter(k Kernel, owner Owner, report func(WriteResult)) *Writer {
	return &Writer{kernel: k, owner: owner, table: NewTable(), owned: make(map[Knob]bool), report: report, wake: make(chan struct{}, 1)}
}

// Ask hands the writer something to do. done is closed when that has been done, or when the writer ends.
func (w *Writer) Ask(r WriteRequest) (done <-chan struct{}) {
	waiter := make(chan struct{})
	w.mu.Lock()
	n := &w.next
	if r.Changed {
		n.Knobs, n.Changed = r.Knobs, true
	}
	n.Recheck = append(n.Recheck, r.Recheck...)
	n.Tick = n.Tick || r.Tick
	n.waiters = append(n.waiters, waiter)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return waiter
}

// Run works until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			for _, waiter := range w.take().waiters {
				close(waiter)
			}
			return
		case <-w.wake:
		}
		r := w.take()
		result := w.work(&r)
		for _, waiter := range r.waiters {
			close(waiter)
		}
		w.report(result)
	}
}

func (w *Writer) take() WriteRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.next
	w.next = WriteRequest{}
	return r
}

func (w *Writer) work(r *WriteRequest) WriteResult {
	began := time.Now()
	out := WriteResult{Tick: r.Tick}
	if r.Changed {
		out.Errs = w.replace(r.Knobs)
	}
	for _, cgroup := range r.Recheck {
		w.table.Recheck(cgroup)
	}
	if r.Tick {
		out.Outcome = w.table.Tick(w.kernel)
	} else {
		out.Outcome = w.table.Flush(w.kernel)
	}
	out.Knobs, out.Took = w.table.Len(), time.Since(began)
	return out
}

// replace makes the table's rows of the owner the given ones.
func (w *Writer) replace(knobs []DesiredKnob) (errs []error) {
	now := make(map[Knob]bool, len(knobs))
	for i := range knobs {
		k := &knobs[i]
		if err := w.table.Want(w.owner, k.Knob, k.Value); err != nil {
			errs = append(errs, err)
			continue
		}
		now[k.Knob] = true
	}
	for k := range w.owned {
		if !now[k] {
			w.table.Release(w.owner, k)
		}
	}
	w.owned = now
	return errs
}
