package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/observe"
)

// observer reads the kernel's counters beside the loop, at each observe interval, and then has the loop look at them.
//
// An observation's memory is used again for the one after the next, unless the loop has borrowed it: then it stays until the loop has given it back.
type observer struct {
	reader   *observe.Reader // nil: nobody observes
	interval time.Duration
	loop     *loop
	events   *events
	observed func(now time.Time) // called in the loop after each reading

	mu       sync.Mutex
	cgroups  []observe.Cgroup // to read; never changed, only replaced
	last     *observe.Observation
	lastAt   time.Time // when the reading of last began
	borrowed *observe.Observation
	retired  *observe.Observation // was replaced while it was borrowed
	reads    uint64
	seconds  float64 // that the readings took
}

// watch says which cgroups to read from now on.
func (o *observer) watch(cgroups []observe.Cgroup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cgroups = cgroups
}

// borrow is the last observation, and when its reading began; nil: there is none. It stays as it is until giveBack is called.
func (o *observer) borrow() (*observe.Observation, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.borrowed = o.last
	return o.last, o.lastAt
}

func (o *observer) giveBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.borrowed = nil
}

// read reads once.
func (o *observer) read(since time.Time) (reversed uint64) {
	o.mu.Lock()
	cgroups := o.cgroups
	if o.retired != nil && o.borrowed == nil {
		o.reader.Recycle(o.retired)
		o.retired = nil
	}
	o.mu.Unlock()
	began := time.Now()
	next := o.reader.Read(began.Sub(since), cgroups)
	took := time.Since(began)
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.last
	o.last, o.lastAt = next, began
	o.reads++
	o.seconds += took.Seconds()
	if before == nil {
		return 0
	}
	reversed = next.Counts.Reversed - before.Counts.Reversed
	if before == o.borrowed {
		o.retired = before
	} else {
		o.reader.Recycle(before)
	}
	return reversed
}

// run reads until ctx ends.
func (o *observer) run(ctx context.Context) {
	defer o.reader.Close()
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for since := time.Now(); ; {
		if reversed := o.read(since); reversed > 0 {
			o.loop.post(func() {
				o.events.noteTransient(spec.ReasonCountersReversed, fmt.Sprintf("%d counters of the kernel went backwards; no rate was made of them", reversed))
			})
		}
		o.loop.post(func() { o.observed(time.Now()) })
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// show shows the last observation to look, which must not keep it. False: there is none yet, or nobody observes.
func (o *observer) show(look func(*observe.Observation)) bool {
	if o.reader == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		return false
	}
	look(o.last)
	return true
}

// totals are how many readings there were, and how long they took.
func (o *observer) totals() (reads uint64, seconds float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reads, o.seconds
}
