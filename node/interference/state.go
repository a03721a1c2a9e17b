package interference

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// State is what a Book has learned, as JSON has it: what is usual of each service, the last windows, and when a pod was evicted last. An agent that starts again goes on with it. The ladder is not
// in it: nobody is evicted at once for what an agent before this one saw.
type State struct {
	// Version is stateVersion; one of another version is not read.
	Version int `json:"version"`
	// At is when the last window ended.
	At time.Time `json:"at"`
	// Evicted is when an eviction was last begun.
	Evicted time.Time `json:"evicted,omitzero"`
	// Windows are the last ones, as many for each pod, the newest last.
	Windows int `json:"windows"`
	// Partial: not all pods found room.
	Partial bool       `json:"partial,omitempty"`
	Pods    []PodState `json:"pods"`
}

// PodState is what is known of a pod.
type PodState struct {
	ID   string `json:"id"`
	Rows []row  `json:"rows,omitempty"`
	// Bins are what is usual of a service at each load, by signal; empty of other pods.
	Bins [][signals]Usual `json:"bins,omitempty"`
}

// Usual is what a signal usually is at a load.
type Usual struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	Seen      int     `json:"seen"`
}

const (
	stateVersion = 1
	// MaxStateAge is how old a State may be: what was usual longer ago than that is learned anew.
	MaxStateAge = time.Hour
	maxIDBytes  = 253
)

// MarshalJSON writes what is known, and null for what is not. The unknown end is left out.
func (r row) MarshalJSON() ([]byte, error) {
	last := len(r)
	for last > 0 && math.IsNaN(r[last-1]) {
		last--
	}
	out := make([]*float32, last)
	for i := range out {
		if v := float32(r[i]); !math.IsNaN(r[i]) { // more digits say nothing
			out[i] = &v
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (r *row) UnmarshalJSON(data []byte) error {
	var list []*float64
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if len(list) > len(r) {
		return fmt.Errorf("%d values in a row: want at most %d", len(list), len(r))
	}
	*r = unseen()
	for i, v := range list {
		if v != nil {
			r[i] = orUnknown(float64(float32(*v)))
		}
	}
	return nil
}

// State is what the Book knows; nil: nothing yet.
func (b *Book) State() *State {
	if b.closed.IsZero() {
		return nil
	}
	s := &State{Version: stateVersion, At: b.closed, Evicted: b.evicted, Windows: b.history.windows, Partial: b.history.partial}
	ids := make(map[string]bool, len(b.history.pods))
	for id := range b.history.pods {
		ids[id] = true
	}
	for id := range b.services {
		ids[id] = true
	}
	for id := range b.restored {
		ids[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		p := PodState{ID: id, Rows: slices.Clone(b.history.pods[id])}
		if service := b.services[id]; service != nil {
			p.Bins = service.watch.usual()
		} else if p.Bins = b.restored[id]; len(p.Rows) == 0 && p.Bins == nil {
			continue
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

// ErrStale says that a State is too old to go on with.
var ErrStale = errors.New("what was learned is too old")

// Restore has a new Book go on with what one before it knew. It returns of how many services it is known what is usual. With an error nothing of that is taken; of a State that is only too old, when a
// pod was evicted last counts all the same.
func (b *Book) Restore(s *State, now time.Time) (services int, err error) {
	if err := s.validate(&b.rules.Watch); err != nil {
		return 0, fmt.Errorf("what was learned of harm is not taken: %w", err)
	}
	if b.evicted = s.Evicted; b.evicted.After(now) { // the clock went back
		b.evicted = now
	}
	age := now.Sub(s.At)
	if age > MaxStateAge || age < -Length {
		return 0, fmt.Errorf("%w: it is of %s, and more than %v old or of a time to come", ErrStale, s.At.UTC().Format(time.RFC3339), MaxStateAge)
	}
	b.history = history{windows: s.Windows, partial: s.Partial, pods: make(map[string][]row)}
	b.restored = make(map[string][][signals]Usual)
	for i := range s.Pods {
		p := &s.Pods[i]
		if len(p.Rows) > 0 {
			b.history.pods[p.ID] = slices.Clone(p.Rows)
		}
		if len(p.Bins) > 0 {
			b.restored[p.ID] = p.Bins
		}
	}
	b.closed = s.At
	return len(b.restored), nil
}

// validate says what is wrong with a State. What it says of a pod may be anything else: it is data.
func (s *State) validate(p *Params) error {
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("version %d: want %d", s.Version, stateVersion)
	case s.Windows < 0 || s.Windows > p.Kept:
		return fmt.Errorf("%d windows: want at most %d", s.Windows, p.Kept)
	case len(s.Pods) > maxNeighbours+MaxWatched:
		return fmt.Errorf("%d pods: want at most %d", len(s.Pods), maxNeighbours+MaxWatched)
	}
	services, rows := 0, 0
	ids := make(map[string]bool, len(s.Pods))
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.ID == "" || len(pod.ID) > maxIDBytes || ids[pod.ID] {
			return fmt.Errorf("pod %d: %q: want another name of at most %d bytes", i, pod.ID[:min(len(pod.ID), maxIDBytes)], maxIDBytes)
		}
		if ids[pod.ID] = true; len(pod.Rows) != 0 && len(pod.Rows) != s.Windows {
			return fmt.Errorf("pod %q: %d windows: want %d", pod.ID, len(pod.Rows), s.Windows)
		}
		rows += min(len(pod.Rows), 1)
		if len(pod.Bins) == 0 {
			continue
		}
		if services++; len(pod.Bins) != p.Bins {
			return fmt.Errorf("pod %q: %d bins of load: want %d", pod.ID, len(pod.Bins), p.Bins)
		}
		for _, bin := range pod.Bins {
			for _, u := range bin {
				if math.IsNaN(orUnknown(u.Mean)) || math.IsNaN(orUnknown(u.Deviation)) || u.Seen < 0 {
					return fmt.Errorf("pod %q: %+v is not what a signal usually is", pod.ID, u)
				}
			}
		}
	}
	if services > MaxWatched || rows > maxNeighbours {
		return fmt.Errorf("%d services, %d pods with windows: want at most %d and %d", services, rows, MaxWatched, maxNeighbours)
	}
	return nil
}

// usual is what is usual of the service.
func (w *Watch) usual() [][signals]Usual {
	out := make([][signals]Usual, len(w.bins))
	for i := range w.bins {
		for s, b := range w.bins[i] {
			out[i][s] = Usual{b.mean, b.deviation, b.seen}
		}
	}
	return out
}

// takeUsual goes on with what was usual.
func (w *Watch) takeUsual(bins [][signals]Usual) {
	for i := range bins {
		for s, u := range bins[i] {
			w.bins[i][s] = baseline{u.Mean, u.Deviation, u.Seen}
		}
	}
}
