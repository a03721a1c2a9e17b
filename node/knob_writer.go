package node

import (
	"context"
	"sync"
	"time"

	"hilbert.dev/hilbert/node/enforce"
)

// owner is whose knobs these are in the tables.
const owner enforce.Owner = "allocate"

// desiredKnob is the wanted value of a knob.
type desiredKnob struct {
	enforce.Knob
	value string
}

// knobWriter writes the desired knobs to the kernel, beside the loop. It has a table of its own. What it is asked meanwhile is merged: it always works
// for the newest knobs.
type knobWriter struct {
	kernel enforce.Kernel
	table  *enforce.Table
	owned  map[enforce.Knob]bool // what the table has of ours
	report func(knobResult)      // called by the writer's goroutine; must not wait for the writer

	wake chan struct{}
	mu   sync.Mutex
	next knobRequest
}

// knobRequest is what a writer is asked to do next.
type knobRequest struct {
	knobs   []desiredKnob   // all of them
	changed bool            // knobs are new
	recheck []string        // cgroups that somebody may have changed
	tick    bool            // compare everything
	waiters []chan struct{} // closed when it is done
}

// knobResult is what came of it.
type knobResult struct {
	outcome enforce.Outcome
	knobs   int
	tick    bool
	took    time.Duration
	errs    []error // files that are no knobs: mistakes of ours
}

func newKnobWriter(k enforce.Kernel, told func(knobResult)) *knobWriter {
	return &knobWriter{kernel: k, table: enforce.NewTable(), owned: make(map[enforce.Knob]bool), report: told, wake: make(chan struct{}, 1)}
}

// ask hands the writer something to do; done is closed when that has been done, or when the writer ends.
func (l *knobWriter) ask(r knobRequest) (done <-chan struct{}) {
	waiter := make(chan struct{})
	l.mu.Lock()
	n := &l.next
	if r.changed {
		n.knobs, n.changed = r.knobs, true
	}
	n.recheck = append(n.recheck, r.recheck...)
	n.tick = n.tick || r.tick
	n.waiters = append(n.waiters, waiter)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return waiter
}

// run works until ctx ends.
func (l *knobWriter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			for _, w := range l.take().waiters {
				close(w)
			}
			return
		case <-l.wake:
		}
		r := l.take()
		report := l.work(&r)
		for _, w := range r.waiters {
			close(w)
		}
		l.report(report)
	}
}

func (l *knobWriter) take() knobRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.next
	l.next = knobRequest{}
	return r
}

func (l *knobWriter) work(r *knobRequest) knobResult {
	began := time.Now()
	out := knobResult{tick: r.tick}
	if r.changed {
		out.errs = l.replace(r.knobs)
	}
	for _, cgroup := range r.recheck {
		l.table.Recheck(cgroup)
	}
	if r.tick {
		out.outcome = l.table.Tick(l.kernel)
	} else {
		out.outcome = l.table.Flush(l.kernel)
	}
	out.knobs, out.took = l.table.Len(), time.Since(began)
	return out
}

// replace makes the table's rows of ours the given ones.
func (l *knobWriter) replace(requests []desiredKnob) (errs []error) {
	now := make(map[enforce.Knob]bool, len(requests))
	for i := range requests {
		w := &requests[i]
		if err := l.table.Want(owner, w.Knob, w.value); err != nil {
			errs = append(errs, err)
			continue
		}
		now[w.Knob] = true
	}
	for k := range l.owned {
		if !now[k] {
			l.table.Release(owner, k)
		}
	}
	l.owned = now
	return errs
}
