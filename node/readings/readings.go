// Package readings reads something beside the agent's loop, and keeps what was read last for the loop, which never waits for it. The packages perf and bandwidth read the processor's counters
// and the memory bandwidth of pods so.
//
//	Poller.Watch(wanted) ─▶ Poller.Run ─▶ Source.Read, each interval ─▶ Poller.Of(key)
//
// What always holds: one goroutine reads, and only it calls the Source; a value that is older than three intervals is not known, and never the last one or zero; at the end the Source is
// closed, and nothing is known any more.
//
// For example, the loop watches the pods a and b, and asks for a at each tick: it has what the last reading said of a, or nothing.
//
// It knows no kernel and no pod, and counts nothing: what is read, and why it cannot be, its Source says.
package readings

import (
	"context"
	"sync"
	"time"

	"hilbert.dev/hilbert/internal/clock"
)

// ageInIntervals is how old a value may be that is still known.
const ageInIntervals = 3

// Source is what is read. Wanted is what is asked for, Value what is read of one of them, Status how reading goes. Only the Poller's goroutine calls it.
type Source[Wanted, Value, Status any] interface {
	// Read reads once, at a time since the beginning. Values that are not known are not in the map.
	Read(at time.Duration, wanted []Wanted) (map[string]Value, Status)
	// Close gives back what reading takes.
	Close() Status
}

// Poller reads a Source.
type Poller[Wanted, Value, Status any] struct {
	source   Source[Wanted, Value, Status]
	interval time.Duration
	clock    clock.Clock

	mu     sync.Mutex
	wanted []Wanted
	values map[string]Value
	at     time.Time // of values
	status Status
}

// New returns a Poller that watches nothing yet. by is the time that readings go by; nil: the machine's.
func New[Wanted, Value, Status any](source Source[Wanted, Value, Status], interval time.Duration, by clock.Clock) *Poller[Wanted, Value, Status] {
	return &Poller[Wanted, Value, Status]{source: source, interval: interval, clock: clock.OrReal(by)}
}

// Watch says what to read from now on, the most wanted first. The list must not be changed afterwards.
func (p *Poller[Wanted, Value, Status]) Watch(wanted []Wanted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = wanted
}

// Of is what the last reading said of one; false: it is not known, or too old.
func (p *Poller[Wanted, Value, Status]) Of(key string, now time.Time) (value Value, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.at) > ageInIntervals*p.interval {
		return value, false
	}
	value, known = p.values[key]
	return value, known
}

// Status is how the last reading went.
func (p *Poller[Wanted, Value, Status]) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Run reads until ctx ends, and closes the Source.
func (p *Poller[Wanted, Value, Status]) Run(ctx context.Context) {
	defer p.close()
	ticker := p.clock.NewTicker(p.interval)
	defer ticker.Stop()
	for since := p.clock.Now(); ; {
		p.Read(since)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// Read reads once. Times count from since.
func (p *Poller[Wanted, Value, Status]) Read(since time.Time) {
	p.mu.Lock()
	wanted := p.wanted
	p.mu.Unlock()
	now := p.clock.Now()
	values, status := p.source.Read(now.Sub(since), wanted)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values, p.at, p.status = values, now, status
}

func (p *Poller[Wanted, Value, Status]) close() {
	status := p.source.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values, p.status = nil, status
}
