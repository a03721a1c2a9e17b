package demo

import "time"

const (
	// quiet is how long nothing may have changed before what still waits counts as not placeable.
	quiet = 5 * time.Second
	// quietReplay is the same while pods end by themselves, each of which may make room for one that waits.
	quietReplay = 15 * time.Second
	// silence is the same time where the scheduler has not yet said of every pending pod why it waits.
	silence = 30 * time.Second
	// backlog is how many pods may wait while more are created.
	backlog = 100
	// stalled is how long nothing was bound before what waits counts as waiting for room.
	stalled = time.Second
)

// settled says that the work is done: all pods are there, none that ends by itself still runs (where that is waited for), and what has
// no node has had its chance: the scheduler said why, and nothing has moved since.
func (r *recorder) settled(at time.Time, work Work) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	idle := min(at.Sub(r.placed), at.Sub(r.added))
	switch {
	case r.now.Created < work.pods(), work.awaitsEnds() && r.finite > 0:
		return false
	case r.now.Pending == 0:
		return true
	case r.unsaid > 0:
		return idle >= silence
	case r.finite > 0:
		return idle >= quietReplay
	default:
		return idle >= quiet && at.Sub(r.ended) >= quiet
	}
}

// digested says that so many pods exist and that more may be created: few wait, or those that do wait for room.
func (r *recorder) digested(at time.Time, pods int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.Created < pods {
		return false
	}
	return r.now.Pending <= backlog || at.Sub(r.placed) >= stalled && at.Sub(r.added) >= stalled
}
