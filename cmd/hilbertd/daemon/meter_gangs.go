package daemon

import (
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// gangClock knows since when each gang that has not started waits.
type gangClock struct {
	store *cluster.Store
	seen  map[facts.UnitName]time.Time
	sweep int // size at which those that are gone are looked for
}

// minSweep is the fewest gangs among which those that are gone are looked for.
const minSweep = 1024

// saw takes note that a member waits. Those that join a running gang start nothing.
func (c *gangClock) saw(name facts.UnitName, now time.Time) {
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

// started returns how long a gang has waited that has places for all that it needs now, once.
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

// clockGang takes note that a pod has its place.
func (m *meter) clockGang(pod *cluster.Pod, now time.Time) {
	if pod.Unit == nil {
		return
	}
	if waited, ok := m.gangs.started(pod.Unit, now); ok {
		m.unitTime.Observe(waited.Seconds())
	}
}

// toldQueue counts an answered write of a Queue's status. It is called by the writer's goroutine.
func (m *meter) toldQueue(outcome bind.Outcome) {
	m.queueStatuses.WithLabelValues(outcomeNames[outcome]).Inc()
}
