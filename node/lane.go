package node

import (
	"context"
	"sync"
	"time"

	"hilbert.dev/hilbert/node/enforce"
)

// owner is whose knobs these are in the tables.
const owner enforce.Owner = "allocate"

// wish is the wanted value of a knob.
type wish struct {
	enforce.Knob
	value string
}

// lane brings wishes to the kernel, beside the loop. It has a table of its own. What it is asked meanwhile is merged: it always works
// for the newest wishes.
type lane struct {
	kernel enforce.Kernel
	table  *enforce.Table
	had    map[enforce.Knob]bool // what the table has of ours
	told   func(laneReport)      // called by the lane's goroutine; must not wait for the lane

	wake chan struct{}
	mu   sync.Mutex
	next laneRequest
}

// laneRequest is what a lane is asked to do next.
type laneRequest struct {
	wishes  []wish          // all of them
	changed bool            // wishes are new
	again   []string        // cgroups that somebody may have changed
	tick    bool            // compare everything
	waiters []chan struct{} // closed when it is done
}

// laneReport is what came of it.
type laneReport struct {
	outcome enforce.Outcome
	knobs   int
	tick    bool
	took    time.Duration
	errs    []error // wishes that are no knobs: mistakes of ours
}

func newLane(k enforce.Kernel, told func(laneReport)) *lane {
	return &lane{kernel: k, table: enforce.NewTable(), had: make(map[enforce.Knob]bool), told: told, wake: make(chan struct{}, 1)}
}

// ask hands the lane something to do; done is closed when that has been done, or when the lane ends.
func (l *lane) ask(r laneRequest) (done <-chan struct{}) {
	waiter := make(chan struct{})
	l.mu.Lock()
	n := &l.next
	if r.changed {
		n.wishes, n.changed = r.wishes, true
	}
	n.again = append(n.again, r.again...)
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
func (l *lane) run(ctx context.Context) {
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
		l.told(report)
	}
}

func (l *lane) take() laneRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.next
	l.next = laneRequest{}
	return r
}

func (l *lane) work(r *laneRequest) laneReport {
	began := time.Now()
	out := laneReport{tick: r.tick}
	if r.changed {
		out.errs = l.wish(r.wishes)
	}
	for _, cgroup := range r.again {
		l.table.Again(cgroup)
	}
	if r.tick {
		out.outcome = l.table.Tick(l.kernel)
	} else {
		out.outcome = l.table.Flush(l.kernel)
	}
	out.knobs, out.took = l.table.Len(), time.Since(began)
	return out
}

// wish makes the table's rows of ours the given ones.
func (l *lane) wish(wishes []wish) (errs []error) {
	now := make(map[enforce.Knob]bool, len(wishes))
	for i := range wishes {
		w := &wishes[i]
		if err := l.table.Want(owner, w.Knob, w.value); err != nil {
			errs = append(errs, err)
			continue
		}
		now[w.Knob] = true
	}
	for k := range l.had {
		if !now[k] {
			l.table.Release(owner, k)
		}
	}
	l.had = now
	return errs
}
