package node

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/evict"
)

const (
	// urgentAnswer and patientAnswer are how often it is asked what budgets say of a pod whose eviction is requested: past a hard mark, and else. A
	// cluster may have thousands of the latter.
	urgentAnswer  = 2 * time.Second
	patientAnswer = time.Minute
	answerTimeout = 5 * time.Second
)

// budgetAnswers are what disruption budgets say of the pods whose eviction is requested. hilbertd's leader asks them too, but what it is told does not come here.
type budgetAnswers struct {
	node   *nodeState
	asking bool
	known  map[string]budgetAnswer // by UID, of requests that stand
}

// budgetAnswer is of one pod.
type budgetAnswer struct {
	asked   time.Time
	refused bool
	since   time.Duration // when it was first refused, on the clock of the observations
}

// ask asks what is due, beside the loop.
func (b *budgetAnswers) ask(requests []spec.EvictionRequest, now time.Time) {
	n := b.node
	known := make(map[string]budgetAnswer, len(requests))
	var due []PodName
	for i := range requests {
		request, every := &requests[i], patientAnswer
		if request.Urgent {
			every = urgentAnswer
		}
		was, before := b.known[request.UID]
		if known[request.UID] = was; !before || now.Sub(was.asked) >= every {
			due = append(due, PodName{Namespace: request.Namespace, Name: request.Name, UID: request.UID})
		}
	}
	b.known = known
	if b.asking || len(due) == 0 || n.ports.EvictionRefused == nil || n.loop.work == nil {
		return
	}
	b.asking = true
	for _, p := range due {
		was := known[p.UID]
		was.asked = now
		known[p.UID] = was
	}
	n.loop.work(func(ctx context.Context) {
		refused := make([]bool, len(due))
		for i, p := range due {
			refused[i] = b.refused(ctx, p)
		}
		n.loop.post(func() {
			b.asking = false
			for i, p := range due {
				b.answered(p.UID, refused[i], now.Sub(n.started))
			}
		})
	})
}

// refused asks about one pod. What is not known is no refusal.
func (b *budgetAnswers) refused(ctx context.Context, p PodName) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	refused, err := b.node.ports.EvictionRefused(ctx, p)
	if err != nil {
		b.node.log.Debug("it is not known whether a budget refuses an eviction", "pod", p.Namespace+"/"+p.Name, "err", err)
	}
	return refused && err == nil
}

// answered takes an answer to a question of that time, unless the request has been withdrawn meanwhile.
func (b *budgetAnswers) answered(uid string, refused bool, at time.Duration) {
	known := b.known
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

// refusals are the answers as the law wants them.
func (b *budgetAnswers) refusals() (out []evict.Answer) {
	for _, uid := range sortedKeys(b.known) {
		if known := b.known[uid]; known.refused {
			out = append(out, evict.Answer{UID: uid, State: evict.Refused, Since: known.since})
		}
	}
	return out
}
