package relief

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// What became of a wish is told in an event of the pod, once for each reason while the wish stands. The agent needs none of it: it sees that
// the pod is there or not.

const (
	// delayedAfter is how long a wish waits for the budget before the pod is told.
	delayedAfter = 30 * time.Second
	// notesPerSecond and notesBurst bound the events; what is beyond is not told.
	notesPerSecond = 5
	notesBurst     = 20
)

// notes is the budget of the events.
type notes struct {
	tokens float64
	filled time.Time
}

func (n *notes) take(now time.Time) bool {
	switch passed := now.Sub(n.filled); {
	case n.filled.IsZero():
		n.tokens, n.filled = notesBurst, now
	case passed > 0:
		n.tokens, n.filled = min(n.tokens+passed.Seconds()*notesPerSecond, notesBurst), now
	}
	if n.tokens < 1 {
		return false
	}
	n.tokens--
	return true
}

// tell writes an event, unless the pod has it already, or there are too many.
func (r *Relief) tell(w *wish, reason, message string, now time.Time) {
	if w.told[reason] || len(r.flights)+len(r.pending) >= MaxInFlight || !r.notes.take(now) {
		return
	}
	if w.told == nil {
		w.told = make(map[string]bool)
	}
	w.told[reason] = true
	r.pending = append(r.pending, bind.Write{
		Kind: bind.WriteEvent, Pod: w.UID, Namespace: w.Namespace, Name: w.Name, Condition: facts.Condition{Reason: reason, Message: message},
	})
}

// tellDelayed tells the pods whose wishes have waited for the budget for a while.
func (r *Relief) tellDelayed(now time.Time) {
	var late []*wish
	for _, w := range r.wishes {
		if !w.Urgent && w.open(now) && now.Sub(w.since) >= delayedAfter && !w.told[spec.ReasonEvictionDelayed] {
			late = append(late, w)
		}
	}
	slices.SortFunc(late, r.fairly)
	for _, w := range late {
		r.tell(w, spec.ReasonEvictionDelayed, "node "+w.node+" wants the pod evicted ("+w.Reason+"); the cluster's eviction budget holds it back", now)
	}
	for len(r.pending) > 0 && len(r.flights) < MaxInFlight {
		r.write(r.pending[0], nil)
		r.pending = r.pending[1:]
	}
}

func evictedText(w *wish) string {
	text := "evicted from node " + w.node + ": " + w.Reason
	if w.Message != "" {
		text += ": " + w.Message
	}
	if w.Urgent {
		text += " (urgent)"
	}
	return text
}
