package bind

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

const (
	// MaxConditionsInFlight bounds the condition writes under way: each costs the API server two Bindings' worth.
	MaxConditionsInFlight = 4
	// maxConditionAttempts bounds the tries of one condition; the next decision about the pod reports anew.
	maxConditionAttempts = 3
)

// conditions coalesces and deduplicates PodScheduled=False: at most one row a pod, the newest message wins, a message with the same
// reason is written at most once per MinInterval, and a token bucket bounds them all.
type conditions struct {
	cfg      spec.Conditions
	rows     map[cluster.UID]*conditionRow
	due      []*conditionRow           // in the order in which they became due
	later    *heap.Heap[*conditionRow] // held back by MinInterval, by the end of it
	flights  map[WriteID]*conditionRow
	tokens   float64
	refilled time.Time
}

type conditionRow struct {
	pod      cluster.UID
	want     cluster.Condition
	written  cluster.Condition
	at       time.Time // when written was written
	waiting  bool      // in due or later
	position int       // in later, -1 when not there
	flying   bool
	attempts int
	dropped  bool
}

func newConditions(cfg spec.Conditions) conditions {
	return conditions{
		cfg: cfg, rows: make(map[cluster.UID]*conditionRow), flights: make(map[WriteID]*conditionRow), tokens: float64(cfg.Burst),
		later: heap.New(
			func(a, b *conditionRow) bool {
				if c := a.at.Compare(b.at); c != 0 {
					return c < 0
				}
				return a.pod < b.pod
			},
			func(r *conditionRow, i int) { r.position = i }),
	}
}

// Report asks for the pod's condition to say this. It is nothing if the condition says so already.
func (b *Binder) Report(pod *cluster.Pod, want cluster.Condition, now time.Time) {
	c := &b.conditions
	r := c.rows[pod.UID]
	if r == nil {
		if pod.Reported == want {
			return
		}
		r = &conditionRow{pod: pod.UID, written: pod.Reported, position: -1}
		c.rows[pod.UID] = r
	}
	r.want, r.attempts = want, 0
	c.schedule(r, now)
}

// schedule files a row that differs from what is written.
func (c *conditions) schedule(r *conditionRow, now time.Time) {
	if r.waiting || r.flying || r.want == r.written {
		return
	}
	r.waiting = true
	if r.want.Reason == r.written.Reason && !r.at.IsZero() && now.Before(r.at.Add(c.cfg.MinInterval.D())) {
		c.later.Push(r)
		return
	}
	c.due = append(c.due, r)
}

// refill adds the tokens of the time that has passed.
func (c *conditions) refill(now time.Time) {
	if !c.refilled.IsZero() && now.After(c.refilled) {
		earned := float64(now.Sub(c.refilled).Seconds() * c.cfg.PerSecond) // the conversion keeps it from fusing with the sum
		c.tokens = min(c.tokens+earned, float64(c.cfg.Burst))
	}
	c.refilled = now
}

func (c *conditions) ready(store *cluster.Store, writes []Write, next *WriteID, now time.Time) []Write {
	if len(c.due) == 0 && c.later.Len() == 0 {
		return writes
	}
	c.refill(now)
	for c.later.Len() > 0 && !now.Before(c.later.First().at.Add(c.cfg.MinInterval.D())) {
		c.due = append(c.due, c.later.Pop())
	}
	for len(c.due) > 0 && c.tokens >= 1 && len(c.flights) < MaxConditionsInFlight {
		r := c.due[0]
		c.due = c.due[1:]
		r.waiting = false
		pod := store.Pod(r.pod)
		if r.dropped || pod == nil || pod.Phase != cluster.Pending || r.want == r.written {
			continue
		}
		c.tokens--
		*next++
		r.flying = true
		c.flights[*next] = r
		writes = append(writes, Write{
			ID: *next, Kind: WriteCondition, Pod: r.pod, Namespace: pod.Namespace, Name: pod.Name, Condition: r.want,
		})
		r.written, r.at = r.want, now
	}
	return writes
}

func (c *conditions) finish(result Result, now time.Time) {
	r := c.flights[result.ID]
	if r == nil {
		return
	}
	delete(c.flights, result.ID)
	r.flying = false
	if r.dropped {
		return
	}
	if result.Outcome != Written && result.Outcome != Gone {
		r.written = cluster.Condition{}
		r.attempts++
		if r.attempts >= maxConditionAttempts {
			return
		}
	}
	c.schedule(r, now)
}

func (c *conditions) forget(uid cluster.UID) {
	if r := c.rows[uid]; r != nil {
		r.dropped = true
		delete(c.rows, uid)
		if r.position >= 0 {
			c.later.Remove(r.position)
		}
	}
}

func (c *conditions) nextWake(now time.Time) (time.Time, bool) {
	switch {
	case len(c.due) > 0 && len(c.flights) < MaxConditionsInFlight:
		missing := max(1-c.tokens, 0)
		return now.Add(time.Duration(missing / c.cfg.PerSecond * float64(time.Second))), true
	case c.later.Len() > 0:
		return c.later.First().at.Add(c.cfg.MinInterval.D()), true
	}
	return time.Time{}, false
}
