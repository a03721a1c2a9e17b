package queue

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
)

// State is how a unit waits.
type State uint8

// The states, in the order in which Sort puts them.
const (
	Ready   State = iota + 1 // would be tried now
	Delayed                  // waits out a backoff
	Asleep                   // its class is parked
)

// Standing is a unit as it waits, copied out of the queue.
type Standing struct {
	Pod      cluster.UID
	State    State
	Until    time.Time // Delayed: until when
	Attempts int       // refusals in a row

	priority          int32
	created, sequence int64
}

// Standings copies out every unit, in no particular order.
func (q *Queue) Standings() []Standing {
	list := make([]Standing, 0, len(q.units))
	for _, u := range q.units {
		s := Standing{Pod: u.Pod, State: Ready, Attempts: u.Attempts, priority: u.Priority, created: u.Created, sequence: int64(u.sequence)}
		switch {
		case !u.until.IsZero():
			s.State, s.Until = Delayed, u.until
		case u.class != nil && u.class.parked:
			s.State = Asleep
		}
		list = append(list, s)
	}
	return list
}

// Sort puts standings in the order in which the queue would give the units out, if none were delayed or asleep: by state, then (Delayed)
// by the end of the backoff, then by priority, age and arrival.
func Sort(list []Standing) {
	slices.SortFunc(list, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.Until.Compare(b.Until),
			cmp.Compare(b.priority, a.priority), cmp.Compare(a.created, b.created), cmp.Compare(a.sequence, b.sequence))
	})
}
