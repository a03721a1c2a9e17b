package reschedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// asked is one pod whose eviction is asked for by an EvictionRequest, and whoever may act on it. The responder acts late, never, or only after the request was withdrawn.
type asked struct {
	random *rand.Rand
	now    time.Time
	move   Move
	place  Place
	// The pod, and whether its replacement has come.
	gone, replaced bool
	// The request: there, failed, and since when nobody asks any more (what the responder does not know at once).
	requested bool
	failed    string
	withdrawn time.Time
	acts      time.Duration // after the request was made; 0: never
	made      time.Time
	early     bool // the target was given back while somebody could still act
}

const responderLag = 10 * time.Second

func (w *asked) do(what Do) error {
	if w.random.IntN(5) == 0 {
		return nil // the write is lost
	}
	switch what {
	case Reserve:
		if w.place == Absent {
			w.place = Asked
		}
	case Evict:
		if w.place != Reserved {
			return fmt.Errorf("an eviction is asked for, and the target is %v", w.place)
		}
		if !w.requested {
			w.requested, w.made, w.withdrawn = true, w.now, time.Time{}
		}
	case Withdraw, GiveBack:
		if w.requested && w.withdrawn.IsZero() {
			w.requested, w.withdrawn, w.failed = false, w.now, ""
		}
		if what == GiveBack {
			w.early = w.early || !w.gone && w.knows()
			w.place = Absent
		}
	case QueueFirst:
	}
	return nil
}

// knows reports whether whoever may act thinks that the request is there.
func (w *asked) knows() bool {
	return w.requested || !w.withdrawn.IsZero() && w.now.Sub(w.withdrawn) < responderLag
}

// passes lets some seconds pass, in which the world goes on.
func (w *asked) passes() {
	w.now = w.now.Add(time.Duration(1+w.random.IntN(20)) * time.Second)
	switch {
	case w.place == Asked:
		w.place = Reserved
	case w.place == Reserved && !w.replaced && w.random.IntN(60) == 0:
		w.place = Lost
	}
	if w.knows() && !w.gone && w.acts > 0 && w.now.Sub(w.made) >= w.acts {
		w.gone = true
	}
	if w.requested && !w.gone && w.random.IntN(80) == 0 {
		w.failed = "NoFurtherResponder"
	}
	if w.requested && w.gone && w.random.IntN(2) == 0 { // the API server forgets it
		w.requested, w.withdrawn = false, w.now
	}
	if w.gone && w.place == Reserved && w.random.IntN(3) == 0 {
		w.place, w.replaced = Consumed, true
	}
}

func (w *asked) seen() Seen {
	return Seen{Known: w.random.IntN(6) > 0, Place: w.place, Running: !w.gone, Gone: w.gone, Requested: w.requested, Failed: w.failed}
}

// Nobody is asked to evict before the target is reserved; a move that is given up leaves no request behind, and ends within its time whatever responders do; what was evicted is done or counted.
func TestEvictionsThatAreAskedFor(t *testing.T) {
	limits := DefaultTimeouts()
	ends := make(map[Stage]int)
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 4563))
		w := &asked{random: random, now: time.Unix(1_000_000, 0)}
		w.acts = []time.Duration{0, time.Second, time.Minute, 9 * time.Minute, 20 * time.Minute}[random.IntN(5)]
		began := w.now
		w.move = Move{Pod: "p", Since: w.now}
		for !w.move.Stage.Final() {
			w.passes()
			seen := w.seen()
			if seen.Known && random.IntN(50) == 0 && w.move.Stage != Rehearsed && w.move.Stage != Requeued && w.place != Absent {
				// a new leader knows no more of it; it looks again before it does anything
				w.move = Recover(Move{Pod: "p"}, &seen, began, w.now, &limits)
				w.passes()
				seen = w.seen()
			}
			var do []Do
			w.move, do = Advance(w.move, &seen, w.now, &limits)
			for _, what := range do {
				if err := w.do(what); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if w.now.Sub(began) > 3*time.Hour {
				t.Fatalf("seed %d: it does not end: %+v", seed, w.move)
			}
		}
		ends[w.move.Stage]++
		switch {
		case !w.gone && w.requested && w.move.Stage != GivenBack && w.move.Stage != Stayed:
			t.Fatalf("seed %d: it ends as %v, and the pod runs", seed, w.move.Stage)
		case !w.gone && w.requested:
			t.Fatalf("seed %d: it ends as %v, and the eviction is still asked for", seed, w.move.Stage)
		case w.early:
			t.Fatalf("seed %d: it ends as %v %v after the request was withdrawn: who is to evict may not know yet", seed, w.move.Stage, w.now.Sub(w.withdrawn))
		case w.gone && w.move.Stage != Done && w.move.Stage != LostTarget:
			t.Fatalf("seed %d: the pod is gone, and it ends as %v: %s", seed, w.move.Stage, w.move.Why)
		case w.now.Sub(began) > limits.Reserve+limits.Evict+2*limits.Withdraw+limits.Replace+5*time.Minute:
			t.Fatalf("seed %d: it ends as %v after %v", seed, w.move.Stage, w.now.Sub(began))
		case w.replaced && w.move.Stage != Done:
			t.Fatalf("seed %d: the replacement has the target, and it ends as %v", seed, w.move.Stage)
		}
	}
	for _, stage := range []Stage{Done, GivenBack, Stayed, LostTarget} {
		if ends[stage] == 0 {
			t.Errorf("no move ended as %v: %v", stage, ends)
		}
	}
}
