package bandwidth

import (
	"context"
	"sync"
	"time"

	"hilbert.dev/hilbert/internal/clock"
)

const (
	// Interval is between two readings. Each interrupts a CPU of every domain for each group.
	Interval = 5 * time.Second
	// maxAge is how old a value may be that is still known.
	maxAge = 3 * Interval
)

// Poller reads beside the loop that goes by it.
type Poller struct {
	reader *Reader
	clock  clock.Clock

	mu     sync.Mutex
	wanted []Pod
	uses   map[string]Use
	at     time.Time // of uses
	status Status
}

// NewPoller returns a Poller that watches nothing yet. by is the time that readings go by; nil: the machine's.
func NewPoller(r *Reader, by clock.Clock) *Poller { return &Poller{reader: r, clock: by} }

// Watch says which pods to count from now on, the most wanted first.
func (p *Poller) Watch(pods []Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = pods
}

// Of is the bandwidth of a pod at the last reading.
func (p *Poller) Of(uid string, now time.Time) Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.at) > maxAge {
		return Use{}
	}
	return p.uses[uid]
}

// Status is what is counted, or why not all is.
func (p *Poller) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Run reads until ctx ends, and removes all groups. Where none may be made, it removes what an agent before this one has left, and ends.
func (p *Poller) Run(ctx context.Context) {
	by := clock.OrReal(p.clock)
	defer p.close()
	if p.reader.params.Groups == 0 {
		return
	}
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

// close removes the groups; what cannot be removed is said by the status.
func (p *Poller) close() {
	err := p.reader.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uses, p.status = nil, Status{Why: err}
}

// Read reads once. Times count from since.
func (p *Poller) Read(since time.Time) {
	p.mu.Lock()
	wanted := p.wanted
	p.mu.Unlock()
	now := clock.OrReal(p.clock).Now()
	p.reader.Read(now.Sub(since), wanted)
	uses := make(map[string]Use, len(wanted))
	for _, pod := range wanted {
		if use := p.reader.Of(pod.UID); use.Total.Known {
			uses[pod.UID] = use
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uses, p.at, p.status = uses, now, p.reader.Status()
}
