package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/evict"
)

// kubelet answers what its eviction thresholds are, as the test says.
type thresholdAnswer struct {
	mu   sync.Mutex
	list []evict.Threshold
	err  error
}

func (k *thresholdAnswer) read(context.Context) ([]evict.Threshold, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list, k.err
}

// say has the agent ask again, and waits until it knows the answer.
func (k *thresholdAnswer) say(l *lender, list []evict.Threshold, err error) {
	l.Helper()
	k.mu.Lock()
	k.list, k.err = list, err
	k.mu.Unlock()
	l.agent.Ask(time.Minute, func(a *Agent) { a.thresholds.AskAgain() }) // by a tick whose time may be before now
	l.eventually("the kubelet has been asked again", func() (done bool) {
		l.agent.Ask(time.Minute, func(a *Agent) { done = a.thresholds.Answered() })
		return done
	})
}

func (l *lender) ready() (out spec.NodeCondition) {
	l.agent.Ask(time.Minute, func(a *Agent) {
		for _, c := range a.Status().Conditions {
			if c.Type == spec.ConditionAgentReady {
				out = c
			}
		}
	})
	return out
}

// As long as it is not known when the kubelet evicts, or the kubelet would evict first, no memory is offered; CPUs are lent, and what reclaimed pods that run asked for
// stays theirs. The condition says why.
func TestNoMemoryIsLentUntilTheKubeletsThresholdsAreKnown(t *testing.T) {
	kubelet := &thresholdAnswer{err: errors.New("the kubelet does not answer")}
	l := &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}
	l.thresholds = kubelet.read
	l.start()
	batch := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
	batch.Annotations[spec.AnnotationReclaimed] = "4000m/512Mi"
	if err := l.agent.RunSandbox(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	withheld := func(reason, why string) {
		t.Helper()
		out := l.run(240)
		if h := out.Headroom; h.MemoryMiB > 512 || h.MilliCPU < 1000 {
			t.Errorf("%s: %+v is offered, want CPUs and no more memory than the 512 MiB that run", reason, h)
		}
		if got := out.NUMANodes[0].MemoryReason; got != "Kubelet" {
			t.Errorf("%s: memory is bound by %s", reason, got)
		}
		if c := l.ready(); c.True || c.Reason != reason || !strings.Contains(c.Message, "no memory is lent: ") || !strings.Contains(c.Message, why) {
			t.Errorf("the condition: %+v, want %s", c, reason)
		}
	}
	lent := func(when string) {
		t.Helper()
		if h := l.run(240).Headroom; h.MemoryMiB < 2000 {
			t.Errorf("%s %+v is offered", when, h)
		}
		if c := l.ready(); !c.True {
			t.Errorf("%s the condition is %+v", when, c)
		}
	}
	if out := l.run(1); out.Headroom.MemoryMiB > 512 {
		t.Errorf("before the kubelet was asked %+v is offered", out.Headroom)
	}
	kubelet.say(l, nil, errors.New("the kubelet does not answer"))
	withheld(spec.ReasonKubeletUnknown, "the kubelet does not answer")
	kubelet.say(l, []evict.Threshold{{Signal: "memory.available", Amount: 100 << 20, Total: 4 << 30}}, nil)
	lent("after the answer")
	kubelet.say(l, nil, errors.New("the kubelet starts again"))
	lent("while the kubelet starts again")
	kubelet.say(l, []evict.Threshold{{Signal: "memory.available", Share: 0.2, Total: 4 << 30}}, nil)
	withheld(spec.ReasonKubeletEvictsFirst, "memory.hard: ")
	kubelet.say(l, []evict.Threshold{{Signal: "memory.available", Amount: 100 << 20, Total: 4 << 30}}, nil)
	lent("after the kubelet was mended")
}

// A node that lends nothing asks nothing, and is ready.
func TestThresholdsAreNotReadWhereNothingIsLent(t *testing.T) {
	asked := make(chan struct{}, 100)
	l := &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}
	l.mode = spec.ModeKubelet
	l.thresholds = func(context.Context) ([]evict.Threshold, error) {
		asked <- struct{}{}
		return nil, errors.New("no")
	}
	l.start()
	l.run(5)
	if c := l.ready(); !c.True || len(asked) > 0 {
		t.Errorf("asked %d times; the condition is %+v", len(asked), c)
	}
}
