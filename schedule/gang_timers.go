package schedule

import (
	"cmp"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/deadline"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/queue"
)

// gatherGrace is how long members may come one after another before it is said that some are missing.
const gatherGrace = 5 * time.Second

// gangTimers know of each gang that is not done since when it waits, and when it has to be looked at again though nothing happens:
//
//	gatherGrace after its first member came     its condition says how many members are missing
//	at its timeout                              its condition says so, and nothing is reserved for it any more
//	units.reserveAfter after it fitted nowhere  nodes may be reserved for it
//	units.repairTimeout after it was placed     it holds places in part and cannot start: it loses them
//	in part
type gangTimers struct {
	cfg    spec.Units
	gate   *admit.Gate
	byName map[facts.UnitName]*gangTimer
	queue  *heap.Heap[*gangTimer] // the first due first
}

// gangTimer is what is known of one gang.
type gangTimer struct {
	gang     *cluster.Unit
	since    time.Time // a member came to wait
	parked   time.Time // it was found to fit nowhere; zero: not yet
	partial  time.Time // it came to have some places, but fewer than it needs; zero: it has none, or enough
	due      time.Time // it is looked at again; zero: never
	position int       // in the queue, -1 if not
}

func newGangTimers(cfg spec.Units, gate *admit.Gate) gangTimers {
	return gangTimers{
		cfg: cfg, gate: gate, byName: make(map[facts.UnitName]*gangTimer),
		queue: heap.New(
			func(a, b *gangTimer) bool {
				return cmp.Or(a.due.Compare(b.due), a.since.Compare(b.since), cmp.Compare(a.gang.String(), b.gang.String())) < 0
			},
			func(t *gangTimer, i int) { t.position = i }),
	}
}

// of returns what is known of a gang, new if nothing is.
func (g *gangTimers) of(gang *cluster.Unit, now time.Time) *gangTimer {
	t := g.byName[gang.UnitName]
	if t == nil || t.gang != gang {
		g.forget(gang.UnitName)
		t = &gangTimer{gang: gang, since: now, position: -1}
		g.byName[gang.UnitName] = t
	}
	return t
}

// waits takes note that a unit waits; parked that it fits nowhere. Single pods have no timer.
func (g *gangTimers) waits(u *queue.Unit, parked bool, now time.Time) {
	if u.Gang == nil {
		return
	}
	t := g.of(u.Gang, now)
	if parked && t.parked.IsZero() {
		t.parked = now
	}
	g.set(t, now)
}

// changed takes note of a gang whose pods have changed: whether it holds places in part, and whether some of it still waits.
func (g *gangTimers) changed(gang *cluster.Unit, waits bool, now time.Time) {
	t := g.byName[gang.UnitName]
	switch partial := gang.Partial(); {
	case partial && (t == nil || t.partial.IsZero()):
		t = g.of(gang, now)
		t.partial = now
		g.set(t, now)
	case t != nil && !partial && !waits:
		g.forget(gang.UnitName)
	case t != nil && !partial:
		t.partial = time.Time{}
	}
}

// reconfigure has other times count for the gangs that wait already, too. All are looked at once: by the new times some are overdue.
func (g *gangTimers) reconfigure(cfg spec.Units, now time.Time) {
	if g.cfg == cfg {
		return
	}
	g.cfg = cfg
	for _, t := range g.byName {
		if t.position >= 0 {
			g.queue.Remove(t.position)
		}
		t.due = now
		g.queue.Push(t)
	}
}

// set works out when a gang is looked at again, if ever.
func (g *gangTimers) set(t *gangTimer, now time.Time) {
	if t.position >= 0 {
		g.queue.Remove(t.position)
		t.position = -1
	}
	var next deadline.Earliest
	consider := func(since time.Time, after time.Duration) {
		at := since.Add(after)
		next.Add(at, !since.IsZero() && at.After(now))
	}
	consider(t.since, gatherGrace)
	consider(g.deadline(t.gang), 0)
	consider(t.parked, g.cfg.ReserveAfter.D())
	consider(t.partial, g.cfg.RepairTimeout.D())
	t.due, _ = next.Time()
	if !t.due.IsZero() {
		g.queue.Push(t)
	}
}

// pop takes out the next gang that is to be looked at by now, nil if there is none. The caller sets its timer again.
func (g *gangTimers) pop(now time.Time) *gangTimer {
	if g.queue.Len() == 0 || g.queue.First().due.After(now) {
		return nil
	}
	t := g.queue.Pop()
	t.position = -1
	return t
}

// next is when pop has something to give; ok is false if never.
func (g *gangTimers) next() (at time.Time, ok bool) {
	if g.queue.Len() == 0 {
		return time.Time{}, false
	}
	return g.queue.First().due, true
}

// forget forgets a gang that is done, and what is reserved for it.
func (g *gangTimers) forget(name facts.UnitName) {
	if t := g.byName[name]; t != nil {
		if t.position >= 0 {
			g.queue.Remove(t.position)
		}
		delete(g.byName, name)
	}
	g.gate.Release(name)
}

// deadline is when a gang has timed out; zero: never.
func (g *gangTimers) deadline(u *cluster.Unit) time.Time {
	if u.Facts == nil {
		return time.Time{}
	}
	timeout := time.Duration(u.Facts.Timeout)
	if timeout == 0 {
		timeout = g.cfg.Timeout.D()
	}
	return time.Unix(0, u.Facts.Created).Add(timeout)
}

// timedOut reports whether a gang should have been complete by now. One that runs has been.
func (g *gangTimers) timedOut(u *cluster.Unit, now time.Time) bool {
	return u.Facts != nil && !u.Running() && !now.Before(g.deadline(u))
}

// gathered reports whether the members of a gang have had time to come.
func (g *gangTimers) gathered(t *gangTimer, now time.Time) bool {
	return !now.Before(t.since.Add(gatherGrace))
}

// reserves reports whether a gang has waited so long that nodes may be reserved for it.
func (g *gangTimers) reserves(t *gangTimer, now time.Time) bool {
	return !t.parked.IsZero() && !now.Before(t.parked.Add(g.cfg.ReserveAfter.D()))
}

// broken reports whether a gang has held places in part for so long that it loses them.
func (g *gangTimers) broken(t *gangTimer, now time.Time) bool {
	return !t.partial.IsZero() && !now.Before(t.partial.Add(g.cfg.RepairTimeout.D()))
}
