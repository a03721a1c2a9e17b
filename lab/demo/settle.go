package demo

import (
	"time"
)

const (
	// quiet is how long nothing may have changed before what still waits counts as not placeable.
	quiet = 5 * time.Second
	// silence is the same where the scheduler has not told of every waiting pod why it waits.
	silence = 30 * time.Second
)

// settled says that the work is done: all pods are there, none that ends by itself still runs (where that is waited for), and what has
// no node has had its chance: the scheduler said why, and nothing has moved since.
func (r *recorder) settled(at time.Time, work Work) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.now.Created < work.pods(), work.awaitsEnds() && r.finite > 0:
		return false
	case r.now.Pending == 0:
		return true
	case r.unsaid == 0:
		return at.Sub(r.changed) >= quiet
	default:
		return at.Sub(r.changed) >= silence
	}
}
