package kubelet

import (
	"context"
	"maps"
	"time"

	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/storage"
)

// storageEvery is how often the kubelet is asked what pods hold of file systems. It measures volumes no more often, and its answer takes it some
// milliseconds for each pod.
const storageEvery = time.Minute

// StorageReader asks what pods hold of the node's file systems. An error goes with an outcome other than storage.Read, and no Reading.
type StorageReader interface {
	Read(ctx context.Context) (*storage.Reading, storage.Outcome, error)
}

// Storage asks the kubelet once a minute what pods hold of the node's file systems. The last answer stands until it is too old: which pod is
// evicted depends on the order of amounts alone.
type Storage struct {
	node    *controller.Node
	reader  StorageReader
	reading *storage.Reading
	outcome storage.Outcome // of the last question
	counts  map[storage.Outcome]uint64
	asked   time.Time
	asking  bool
}

// NewStorage returns one that has not asked yet. Without a reader it never does.
func NewStorage(n *controller.Node, reader StorageReader) *Storage {
	return &Storage{node: n, reader: reader, counts: make(map[storage.Outcome]uint64)}
}

// Reading is the last answer; nil: there was none.
func (p *Storage) Reading() *storage.Reading { return p.reading }

// Counts are how often the kubelet was asked, by what became of it.
func (p *Storage) Counts() map[storage.Outcome]uint64 { return maps.Clone(p.counts) }

// Tick implements controller.Ticker: it asks when that is due, beside the loop.
func (p *Storage) Tick(now time.Time) (changed bool) {
	reader := p.reader
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

func (p *Storage) answered(reading *storage.Reading, outcome storage.Outcome, err error) {
	p.asking = false
	p.counts[outcome]++
	if err == nil {
		p.reading = reading
	}
	if outcome != p.outcome && err != nil {
		p.node.Log.Warn("it is not known what pods hold of file systems: where these get short no pod can be chosen", "outcome", outcome, "err", err)
	}
	p.outcome = outcome
}
