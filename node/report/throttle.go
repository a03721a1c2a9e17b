package report

import (
	"hash/fnv"
	"math"
	"strconv"
	"time"
)

const (
	// refreshJitter: a refresh comes later than the interval by up to this part of it, another each time, and the first one by up to the
	// whole of it, so that the nodes of a cluster spread out and stay so. It is never earlier: that would be more than 12 an hour.
	refreshJitter = 8
	// startJitter: the first write waits for up to so many write intervals, for many agents may start at once.
	startJitter = 2
	// urgentPause is the least time between two writes where the later one is urgent. After failures it doubles up to maxUrgentPause, while the pause of
	// everything else doubles up to the refresh interval: an API server that refuses some of what all nodes write gets what is urgent before the rest.
	urgentPause    = time.Second
	maxUrgentPause = 4 * time.Second
)

// Throttle decides when a report is written: a change at once if the last write is a write interval ago, an urgent one if it is a second ago, what
// has not changed after a refresh interval, what failed after a pause that doubles up to the refresh interval, or to seconds if it is urgent. It is fed by one goroutine. Time that runs
// backwards counts as no time.
type Throttle struct {
	node           string
	write, refresh time.Duration

	begun      bool
	inFlight   bool
	last       time.Time     // when the last write was begun, or the Throttle was
	wait       time.Duration // from last to the next write of what has not changed
	pause      time.Duration // from last to the next write that is not urgent
	urgentWait time.Duration // from last to the next write at all
	failures   int
	count      uint64 // writes begun; each has its own jitter
}

// NewThrottle returns a Throttle for a node. A change is written at most each write interval, everything each refresh interval.
func NewThrottle(node string, write, refresh time.Duration) *Throttle {
	return &Throttle{node: node, write: write, refresh: max(refresh, write)}
}

// Refresh changes the refresh interval, from the next write on.
func (t *Throttle) Refresh(interval time.Duration) { t.refresh = max(interval, t.write) }

// Wait says how long from now until the report should be written; 0: now. While a write is under way it is the write interval. A Minor
// change waits for the refresh.
func (t *Throttle) Wait(now time.Time, c Change) time.Duration {
	if !t.begun {
		t.begun, t.last = true, now
		t.pause = time.Duration(t.fraction() * startJitter * float64(t.write))
		t.wait = t.pause
	}
	if now.Before(t.last) {
		t.last = now
	}
	due := t.wait
	switch {
	case t.inFlight:
		return t.write
	case c == Urgent && t.count > 0:
		due = min(t.pause, t.urgentWait)
	case c >= Major:
		due = t.pause
	}
	return max(due-now.Sub(t.last), 0)
}

// InFlight reports whether a write is under way.
func (t *Throttle) InFlight() bool { return t.inFlight }

// Began says that a write has begun.
func (t *Throttle) Began(now time.Time) {
	t.begun, t.inFlight, t.last = true, true, now
	t.count++
	t.pause, t.urgentWait = t.write, urgentPause
	jitter := t.fraction() * float64(t.refresh)
	if t.count > 1 {
		jitter /= refreshJitter
	}
	t.wait = t.refresh + time.Duration(jitter)
}

// Ended says what became of it. After a failure everything is tried again, changed or not.
func (t *Throttle) Ended(written bool) {
	t.inFlight = false
	if written {
		t.failures = 0
		return
	}
	const most = 16 // doublings; the refresh interval comes first
	t.failures = min(t.failures+1, most)
	t.pause = t.backoff(t.write, t.refresh)
	t.urgentWait = t.backoff(urgentPause, maxUrgentPause)
	t.wait = t.pause
}

// backoff is a pause that doubles with each failure, and that is another for each node.
func (t *Throttle) backoff(first, most time.Duration) time.Duration {
	pause := min(first<<(t.failures-1), most)
	return pause + time.Duration(t.fraction()*float64(pause)/2)
}

// fraction is in [0, 1), by the node and the number of the write.
func (t *Throttle) fraction() float64 {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendUint([]byte(t.node+"\x00"), t.count, 10)) // never fails
	const mix = 0x9e3779b97f4a7c15                                         // FNV's high bits hardly move with the last byte
	x := h.Sum64() * mix
	x ^= x >> 29
	return float64(x*mix>>11) / math.Exp2(53)
}
