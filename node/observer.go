package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/observe"
)

// observer reads the kernel's counters beside the loop, at each observe interval.
type observer struct {
	reader *observe.Reader

	mu      sync.Mutex
	cgroups []observe.Cgroup // to read; never changed, only replaced
	last    *observe.Observation
	lastAt  time.Time // when the reading of last began
	reads   uint64
	seconds float64 // that the readings took
}

func (o *observer) watch(cgroups []observe.Cgroup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cgroups = cgroups
}

// read reads once. Who looks at the last observation holds the lock, so the one before can be used again.
func (o *observer) read(since time.Time) (reversed uint64) {
	o.mu.Lock()
	cgroups := o.cgroups
	o.mu.Unlock()
	began := time.Now()
	next := o.reader.Read(began.Sub(since), cgroups)
	took := time.Since(began)
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.last
	o.last, o.lastAt = next, began
	o.reads++
	o.seconds += took.Seconds()
	if before == nil {
		return 0
	}
	reversed = next.Counts.Reversed - before.Counts.Reversed
	o.reader.Recycle(before)
	return reversed
}

// observe runs until ctx ends.
func (a *Agent) observe(ctx context.Context) {
	defer a.observer.reader.Close()
	ticker := time.NewTicker(a.options.Config.ObserveInterval.D())
	defer ticker.Stop()
	for since := time.Now(); ; {
		if reversed := a.observer.read(since); reversed > 0 {
			a.post(func() {
				a.noteTransient(spec.ReasonCountersReversed, fmt.Sprintf("%d counters of the kernel went backwards; no rate was made of them", reversed))
			})
		}
		a.post(func() { a.stepLaws(time.Now()) })
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Observation shows the last observation to look, which must not keep it. False: there is none yet, or nobody observes.
func (a *Agent) Observation(look func(*observe.Observation)) bool {
	if a.observer.reader == nil {
		return false
	}
	a.observer.mu.Lock()
	defer a.observer.mu.Unlock()
	if a.observer.last == nil {
		return false
	}
	look(a.observer.last)
	return true
}

// watched lists the cgroups that are worth observing: containers with their threads, and pods.
func (a *Agent) watched() (out []observe.Cgroup) {
	for _, uid := range sortedKeys(a.pods) {
		p := a.pods[uid]
		if p.cgroup != "" {
			out = append(out, observe.Cgroup{ID: p.name.Namespace + "/" + p.name.Name, Dir: p.cgroup})
		}
		for _, id := range sortedKeys(p.containers) {
			if c := p.containers[id]; c.cgroup != "" {
				out = append(out, observe.Cgroup{ID: id, Dir: c.cgroup, Threads: true})
			}
		}
	}
	return out
}
