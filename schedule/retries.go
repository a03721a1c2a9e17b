package schedule

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

// retries counts the failed attempts of pods that wait or are on their way, and says when they are tried again: with the default settings 1,
// 2, 4, 8 and then always 10 seconds after a failure.
type retries struct {
	cfg    spec.Backoff
	failed map[facts.UID]int
}

// next counts one more failure of a pod and returns when to try it again.
func (r *retries) next(uid facts.UID, now time.Time) time.Time {
	r.failed[uid]++
	pause := r.cfg.Initial.D() << min(r.failed[uid]-1, 16)
	return now.Add(min(pause, r.cfg.Max.D()))
}

func (r *retries) of(uid facts.UID) int { return r.failed[uid] }

func (r *retries) forget(uid facts.UID) { delete(r.failed, uid) }
