package observe

import (
	"context"
	"sync"
	"time"

	"hilbert.dev/hilbert/internal/clock"
)

// Poller reads the kernel's counters each interval, beside the loop that looks at them.
//
// The memory of an observation is used again for the one after the next, unless it is borrowed: then it stays as it is until it is given back. For
// example, the loop borrows observation 7 while the Poller reads 8 and 9: 7 is untouched, and is used again after the loop has given it back.
type Poller struct {
	// Reader reads the counters; nil: there are no observations.
	Reader   *Reader
	Interval time.Duration
	// Clock is the time that readings go by; nil: the machine's. What readings take is real time always.
	Clock clock.Clock
	// Observed is called after each reading, beside the loop. reversed is how many counters went backwards.
	Observed func(reversed uint64)

	mu       sync.Mutex
	cgroups  []Cgroup // to read; never changed, only replaced
	last     *Observation
	lastAt   time.Time // when the reading of last began
	borrowed *Observation
	retired  *Observation // was replaced while it was borrowed
	reads    uint64
	seconds  float64 // that the readings took
}

// Watch says which cgroups to read from now on.
func (o *Poller) Watch(cgroups []Cgroup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cgroups = cgroups
}

// Borrow is the last observation, and when its reading began; nil: there is none. It stays as it is until GiveBack is called.
func (o *Poller) Borrow() (*Observation, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.borrowed = o.last
	return o.last, o.lastAt
}

// GiveBack ends what Borrow began.
func (o *Poller) GiveBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.borrowed = nil
}

// read reads once.
func (o *Poller) read(since time.Time) (reversed uint64) {
	o.mu.Lock()
	cgroups := o.cgroups
	if o.retired != nil && o.borrowed == nil {
		o.Reader.Recycle(o.retired)
		o.retired = nil
	}
	o.mu.Unlock()
	began, really := clock.OrReal(o.Clock).Now(), time.Now()
	next := o.Reader.Read(began.Sub(since), cgroups)
	took := time.Since(really)
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
		o.Reader.Recycle(before)
	}
	return reversed
}

// Run reads until ctx ends, and closes the Reader.
func (o *Poller) Run(ctx context.Context) {
	defer o.Reader.Close()
	by := clock.OrReal(o.Clock)
	ticker := by.NewTicker(o.Interval)
	defer ticker.Stop()
	for since := by.Now(); ; {
		o.Observed(o.read(since))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// Put makes an observation the last one, as if it had been read then. It is for tests.
func (o *Poller) Put(seen *Observation, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.lastAt = seen, at
}

// Show calls look with the last observation; look must not keep it. False: there is none yet, or there is no Reader.
func (o *Poller) Show(look func(*Observation)) bool {
	if o.Reader == nil {
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

// Totals are how many readings there were, how long they took, and how many cgroups they left out because there were more than MaxListed.
func (o *Poller) Totals() (reads uint64, seconds float64, dropped uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil {
		dropped = o.last.Counts.DroppedCgroups
	}
	return o.reads, o.seconds, dropped
}
