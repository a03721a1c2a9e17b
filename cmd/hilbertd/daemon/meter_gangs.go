package daemon

import (
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// gangClock measures how long gangs wait until they start.
type gangClock struct {
	store *cluster.Store
	seen  map[facts.UnitName]time.Time
	sweep int // the size of seen at which gangs that are gone are removed
}

// minSweep is the least value of sweep.
const minSweep = 1024

// waits notes that a member of a gang waits. A member that joins a running gang does not count.
func (c *gangClock) waits(name facts.UnitName, now time.Time) {
	if _, known := c.seen[name]; known {
		return
	}
	if u := c.store.Units().Get(name); u == nil || u.Running() || u.Placed() >= u.MinMember() {
		return
	}
	c.seen[name] = now
	if len(c.seen) < max(c.sweep, minSweep) {
		return
	}
	for name := range c.seen {
		if u := c.store.Units().Get(name); u == nil || len(u.Pods()) == 0 || u.Running() {
			delete(c.seen, name)
		}
	}
	c.sweep = 2 * len(c.seen)
}

// started returns how long a gang has waited, once: when all the members that it needs have places.
func (c *gangClock) started(u *cluster.Unit, now time.Time) (waited time.Duration, ok bool) {
	since, ok := c.seen[u.UnitName]
	if !ok || u.Placed() < u.MinMember() {
		return 0, false
	}
	for _, pod := range u.Pods() {
		if pod.Obliged() {
			return 0, false
		}
	}
	delete(c.seen, u.UnitName)
	return now.Sub(since), true
}

// clockGang notes that a pod has its place, and counts its gang's wait if the gang starts with it.
func (m *meter) clockGang(pod *cluster.Pod, now time.Time) {
	if pod.Unit == nil {
		return
	}
	if waited, ok := m.gangs.started(pod.Unit, now); ok {
		m.unitTime.Observe(waited.Seconds())
	}
}

// queueWritten counts an answered write of a Queue's status. It is called by the writer's goroutine.
func (m *meter) queueWritten(outcome bind.Outcome) {
	m.queueStatuses.WithLabelValues(outcomeNames[outcome]).Inc()
}
