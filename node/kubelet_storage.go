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

// storagePoller asks the kubelet once a minute what pods hold of the node's file systems. The last answer stands until it is too old: which pod is
// evicted depends on the order of amounts alone.
type storagePoller struct {
	node    *nodeState
	reading *storage.Reading
	outcome storage.Outcome // of the last question
	counts  map[storage.Outcome]uint64
	asked   time.Time
	asking  bool
}

// Tick implements ticker: it asks when that is due, beside the loop.
func (p *storagePoller) Tick(now time.Time) (changed bool) {
	reader := p.node.options.Storage
	if reader == nil || p.asking || !p.node.Loop.Running() || !p.asked.IsZero() && now.Sub(p.asked) < storageEvery {
		return false
	}
	p.asking, p.asked = true, now
	p.node.Loop.Work(func(ctx context.Context) {
		reading, outcome, err := reader.Read(ctx)
		p.node.Loop.Post(func() { p.answered(reading, outcome, err) })
	})
	return false
}

func (p *storagePoller) answered(reading *storage.Reading, outcome storage.Outcome, err error) {
	p.asking = false
	if p.counts == nil {
		p.counts = make(map[storage.Outcome]uint64)
	}
	p.counts[outcome]++
	if err == nil {
		p.reading = reading
	}
	if outcome != p.outcome && err != nil {
		p.node.Log.Warn("it is not known what pods hold of file systems: where these get short no pod can be chosen", "outcome", outcome, "err", err)
	}
	p.outcome = outcome
}
