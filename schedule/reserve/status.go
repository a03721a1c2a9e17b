package reserve

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/deadline"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	// MaxInFlight bounds the writes of status under way.
	MaxInFlight = 8
	retryAfter  = time.Second
)

// Status writes how Reservations stand into their status, one write at a time for each. A write that fails is repeated; one that says what the status says already
// is not made. When a status says for the first time that places are lost, an Event of the Reservation does too; one that fails is not repeated.
type Status struct {
	store   *cluster.Store
	seen    changes.Revision
	waiting []*cluster.PlaceholderSet
	of      map[*cluster.PlaceholderSet]*written
	flights map[uint64]flight
	next    uint64
	ready   []bind.Write
	events  []bind.Write // to be started
	silent  bool         // no events
}

// written is what was written of a set.
type written struct {
	version  uint64
	waiting  bool // it is among those that wait
	inFlight bool
	until    time.Time // not before
}

type flight struct {
	set     *cluster.PlaceholderSet
	version uint64
	lost    string // what the status says for the first time
	view    *cluster.ReservationView
}

// NewStatus returns a Status over a ledger that has no Reservations yet. silent: it tells no events.
func NewStatus(store *cluster.Store, silent bool) *Status {
	return &Status{store: store, silent: silent, of: make(map[*cluster.PlaceholderSet]*written), flights: make(map[uint64]flight)}
}

// Ready returns the writes to start now. The slice is valid until the next call.
func (s *Status) Ready(now time.Time) []bind.Write {
	s.ready = s.ready[:0]
	for _, set := range s.store.Placeholders().Changed(&s.seen, nil) {
		s.wait(set)
	}
	var later []*cluster.PlaceholderSet
	for _, set := range s.waiting {
		w := s.of[set]
		switch {
		case set.Gone():
			delete(s.of, set)
		case w.inFlight || len(s.flights) >= MaxInFlight || w.until.After(now):
			later = append(later, set)
		default:
			w.waiting = false
			s.tell(set, w)
		}
	}
	s.waiting = later
	s.ready = append(s.ready, s.events...)
	s.events = s.events[:0]
	return s.ready
}

func (s *Status) wait(set *cluster.PlaceholderSet) {
	w := s.of[set]
	if w == nil {
		w = &written{}
		s.of[set] = w
	}
	if !w.waiting {
		w.waiting = true
		s.waiting = append(s.waiting, set)
	}
}

// tell starts the write of a set, if its status does not say what it should.
func (s *Status) tell(set *cluster.PlaceholderSet, w *written) {
	v := set.View()
	if v.Version == w.version || set.Told(&v) {
		return
	}
	s.next++
	s.flights[s.next] = flight{set, v.Version, lostPlaces(&v), &v}
	w.inFlight = true
	s.ready = append(s.ready, bind.Write{
		ID: bind.WriteID{Owner: bind.OwnerReservations, Number: s.next}, Kind: bind.WriteReservation, Namespace: v.Namespace, Name: v.Name, Reservation: &v,
	})
}

// Finish takes the answer to a write.
func (s *Status) Finish(result bind.Result, now time.Time) {
	f, ok := s.flights[result.ID.Number]
	if !ok {
		return
	}
	delete(s.flights, result.ID.Number)
	w := s.of[f.set]
	if w == nil {
		return
	}
	w.inFlight = false
	switch result.Outcome {
	case bind.Written:
		w.version = f.version
		if f.lost != "" && !s.silent {
			s.next++
			s.events = append(s.events, bind.Write{
				ID: bind.WriteID{Owner: bind.OwnerReservations, Number: s.next}, Kind: bind.WriteEvent, Namespace: f.view.Namespace, Name: f.view.Name, Reservation: f.view,
				Condition: facts.Condition{Reason: spec.ReasonEventPlaceLost, Message: f.lost},
			})
		}
	case bind.Gone: // the watch says so soon
		w.version = f.version
	default:
		w.until = now.Add(retryAfter)
		s.wait(f.set)
	}
}

// lostPlaces says which places are lost of which the status does not say so yet.
func lostPlaces(v *cluster.ReservationView) string {
	var first *cluster.PlaceView
	n := 0
	for i := range v.Places {
		if p := &v.Places[i]; p.State == facts.PlaceLost && !p.Settled {
			n++
			if first == nil {
				first = p
			}
		}
	}
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf("place %d is lost: %s: %s", first.Index, first.Reason, first.Message)
	if n > 1 {
		text += fmt.Sprintf(" (and %d more)", n-1)
	}
	return text
}

// NextWake is when Ready may have more writes even if nothing changes until then.
func (s *Status) NextWake() (time.Time, bool) {
	var next deadline.Earliest
	next.Add(time.Time{}, len(s.events) > 0)
	for _, set := range s.waiting {
		if w := s.of[set]; w != nil && !w.inFlight && len(s.flights) < MaxInFlight {
			next.Add(w.until, true)
		}
	}
	return next.Time()
}
