package watchdog

import (
	"sync"
	"time"
)

// Status is what a watchdog has seen and done since it was started. Counts only grow.
type Status struct {
	// Looks is how often it looked, At when it did last, on its own clock.
	Looks uint64
	At    time.Duration
	// Owner is whose turn it is; empty: no agent has run since the node started, or it cannot be read.
	Owner Owner
	// Beating: a beat of the agent is known, and Silent is for how long it has not changed, as far as the watchdog has seen.
	Beating bool
	Silent  time.Duration
	// Plans is how often it took the turn from a silent agent.
	Plans uint64
	// GivenBack is how many CPU sets of pods it has written, by the plan for absence.
	GivenBack uint64
	// Refused is how often the kernel refused one.
	Refused uint64
	// Trouble is what kept it from its work at the last look; empty: nothing.
	Trouble string
}

// record keeps a Status for readers in other goroutines.
type record struct {
	mu     sync.Mutex
	status Status
	beat   uint64        // the last that was seen
	beatAt time.Duration // when it was seen first
}

func (r *record) change(f func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.status)
}

// looked notes what was seen at a look.
func (r *record) looked(now time.Duration, owner Owner, beat uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if beat != r.beat {
		r.beat, r.beatAt = beat, now
	}
	s := &r.status
	s.Looks, s.At, s.Owner = s.Looks+1, now, owner
	s.Beating = s.Beating || beat != 0 // a beat that cannot be read is no news of an agent that was there
	if s.Beating {
		s.Silent = now - r.beatAt
	}
}

// Status may be called by any goroutine.
func (d *Dog) Status() Status {
	d.record.mu.Lock()
	defer d.record.mu.Unlock()
	return d.record.status
}
