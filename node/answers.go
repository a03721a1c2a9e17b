package node

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/evict"
)

const (
	// urgentAnswer and patientAnswer are how often it is asked what budgets say of a pod that is wished away: past a hard mark, and else. A
	// cluster may have thousands of the latter.
	urgentAnswer  = 2 * time.Second
	patientAnswer = time.Minute
	answerTimeout = 5 * time.Second
)

// answers are what disruption budgets say of the pods that are wished away. hilbertd's leader asks them too, but what it is told does not come here.
type answers struct {
	asking bool
	known  map[string]answer // by UID, of wishes that stand
}

// answer is of one pod.
type answer struct {
	asked   time.Time
	refused bool
	since   time.Duration // when it was first refused, on the clock of the observations
}

// inquire asks what is due, beside the loop.
func (a *Agent) inquire(wishes []spec.EvictionWish, now time.Time) {
	w := &a.relief.answers
	known := make(map[string]answer, len(wishes))
	var due []PodName
	for i := range wishes {
		wish, every := &wishes[i], patientAnswer
		if wish.Urgent {
			every = urgentAnswer
		}
		was, before := w.known[wish.UID]
		if known[wish.UID] = was; !before || now.Sub(was.asked) >= every {
			due = append(due, PodName{Namespace: wish.Namespace, Name: wish.Name, UID: wish.UID})
		}
	}
	w.known = known
	if w.asking || len(due) == 0 || a.ports.Refused == nil || a.work == nil {
		return
	}
	w.asking = true
	for _, p := range due {
		was := known[p.UID]
		was.asked = now
		known[p.UID] = was
	}
	a.work(func(ctx context.Context) {
		refused := make([]bool, len(due))
		for i, p := range due {
			refused[i] = a.refused(ctx, p)
		}
		a.post(func() {
			w.asking = false
			for i, p := range due {
				a.answered(p.UID, refused[i], now.Sub(a.started))
			}
		})
	})
}

// refused asks about one pod. What is not known is no refusal.
func (a *Agent) refused(ctx context.Context, p PodName) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	refused, err := a.ports.Refused(ctx, p)
	if err != nil {
		a.log.Debug("it is not known whether a budget refuses an eviction", "pod", p.Namespace+"/"+p.Name, "err", err)
	}
	return refused && err == nil
}

// answered takes an answer to a question of that time, unless the wish has been withdrawn meanwhile.
func (a *Agent) answered(uid string, refused bool, at time.Duration) {
	known := a.relief.answers.known
	was, stands := known[uid]
	if !stands {
		return
	}
	if refused && !was.refused {
		was.since = at
	}
	was.refused = refused
	known[uid] = was
}

// told are the answers as the law wants them.
func (w *answers) told() (out []evict.Answer) {
	for _, uid := range sortedKeys(w.known) {
		if known := w.known[uid]; known.refused {
			out = append(out, evict.Answer{UID: uid, State: evict.Refused, Since: known.since})
		}
	}
	return out
}
