package perf

import (
	"context"
	"sync"
	"time"

	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/node/advise"
)

const (
	// Interval is between two readings. Each interrupts every CPU for each cgroup that runs there.
	Interval = 5 * time.Second
	// maxAge is how old a value may be that is still known.
	maxAge = 3 * Interval
)

// Poller reads counters beside the loop that goes by them.
type Poller struct {
	reader *Reader
	clock  clock.Clock

	mu     sync.Mutex
	wanted []string
	values map[string]float64
	at     time.Time // of values
	status Status
}

// NewPoller returns a Poller that watches nothing yet. by is the time that readings go by; nil: the machine's.
func NewPoller(r *Reader, by clock.Clock) *Poller { return &Poller{reader: r, clock: by} }

// Watch says which cgroups to count from now on, the most wanted first; none: nothing is counted.
func (p *Poller) Watch(cgroups []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = cgroups
}

// CyclesPerInstruction is what an instruction of a cgroup took at the last reading.
func (p *Poller) CyclesPerInstruction(cgroup string, now time.Time) advise.Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	cycles, ok := p.values[cgroup]
	if !ok || now.Sub(p.at) > maxAge {
		return advise.Sample{}
	}
	return advise.Known(cycles)
}

// Status is what is counted, or why nothing is.
func (p *Poller) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Run reads until ctx ends, and closes all counters.
func (p *Poller) Run(ctx context.Context) {
	defer p.reader.Close()
	by := clock.OrReal(p.clock)
	ticker := by.NewTicker(Interval)
	defer ticker.Stop()
	for since := by.Now(); ; {
		p.Read(since)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// Read reads once. Times count from since.
func (p *Poller) Read(since time.Time) {
	p.mu.Lock()
	wanted := p.wanted
	p.mu.Unlock()
	now := clock.OrReal(p.clock).Now()
	p.reader.Read(now.Sub(since), wanted)
	values := make(map[string]float64, len(wanted))
	for _, cgroup := range wanted {
		if cycles, ok := p.reader.CyclesPerInstruction(cgroup); ok {
			values[cgroup] = cycles
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values, p.at, p.status = values, now, p.reader.Status()
}
