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
	groups int // as of Limit
	uses   map[string]Use
	at     time.Time // of uses
	status Status

	removed bool // all groups are; the reader's goroutine only
}

// NewPoller returns a Poller that watches nothing yet. by is the time that readings go by; nil: the machine's.
func NewPoller(r *Reader, by clock.Clock) *Poller {
	return &Poller{reader: r, clock: by, groups: r.params.Groups}
}

// Limit says how many groups may be made from the next reading on, in the place of Params.Groups. 0: none, and those that are made are removed.
func (p *Poller) Limit(groups int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups = groups
}

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

// Run reads until ctx ends, and removes all groups. As long as none may be made, it removes what is left of them, of an agent before this one too, and reads nothing.
func (p *Poller) Run(ctx context.Context) {
	by := clock.OrReal(p.clock)
	defer p.close()
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
	p.uses, p.status, p.removed = nil, Status{Why: err}, err == nil
}

// Read reads once. Times count from since.
func (p *Poller) Read(since time.Time) {
	p.mu.Lock()
	wanted, groups := p.wanted, p.groups
	p.mu.Unlock()
	if p.reader.Limit(groups); groups == 0 {
		if !p.removed {
			p.close()
		}
		return
	}
	p.removed = false
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
