package node

import (
	"context"
	"time"

	"hilbert.dev/hilbert/node/storage"
)

// storageEvery is how often the kubelet is asked what pods hold of file systems. It measures volumes no more often, and its answer takes it some
// milliseconds for each pod.
const storageEvery = time.Minute

// StorageReader asks what pods hold of the node's file systems. An error goes with an outcome other than storage.Read, and no Reading.
type StorageReader interface {
	Read(ctx context.Context) (*storage.Reading, storage.Outcome, error)
}

// storagePoller is what was last answered.
type storagePoller struct {
	reading *storage.Reading
	outcome storage.Outcome // of the last question
	counts  map[storage.Outcome]uint64
	asked   time.Time
	asking  bool
}

// pollStorage asks what is due, beside the loop. What was answered before stands until it is too old: who goes depends on the order alone.
func (a *Agent) pollStorage(now time.Time) {
	s := &a.storage
	if a.options.Storage == nil || s.asking || a.work == nil || !s.asked.IsZero() && now.Sub(s.asked) < storageEvery {
		return
	}
	s.asking, s.asked = true, now
	a.work(func(ctx context.Context) {
		reading, outcome, err := a.options.Storage.Read(ctx)
		a.post(func() { a.storageAnswered(reading, outcome, err) })
	})
}

func (a *Agent) storageAnswered(reading *storage.Reading, outcome storage.Outcome, err error) {
	s := &a.storage
	s.asking = false
	if s.counts == nil {
		s.counts = make(map[storage.Outcome]uint64)
	}
	s.counts[outcome]++
	if err == nil {
		s.reading = reading
	}
	if outcome != s.outcome && err != nil {
		a.log.Warn("it is not known what pods hold of file systems: where these get short no pod can be chosen", "outcome", outcome, "err", err)
	}
	s.outcome = outcome
}
