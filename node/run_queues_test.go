package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/runqueue"
)

// fakeQueues says that all wait for one pod.
type fakeQueues struct {
	mu       sync.Mutex
	culprit  string // its cgroup
	err      error
	looks    [][]string // victims, at each look
	closed   int
	dropped  time.Duration // in each look; 0: a millisecond
	victims  int           // at the last look
	lastPods []string
}

func (f *fakeQueues) Look(victims, pods []string) (*runqueue.Waits, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	began := f.victims == 0
	f.looks, f.victims, f.lastPods = append(f.looks, victims), len(victims), pods
	if f.err != nil || len(victims) == 0 || began {
		return &runqueue.Waits{}, f.err
	}
	out := &runqueue.Waits{Over: time.Second, Of: make(map[string]map[string]time.Duration), Dropped: cmp.Or(f.dropped, time.Millisecond)}
	for _, v := range victims {
		out.Of[v] = map[string]time.Duration{f.culprit: 400 * time.Millisecond, runqueue.NoPod: 100 * time.Millisecond}
	}
	return out, nil
}

func (f *fakeQueues) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

func (f *fakeQueues) seen() (looks [][]string, victims int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.looks), f.victims
}

// queueRig is a rig whose kernel can be asked for whom threads wait. The hog's use does not go with the harm: it was there before, so that correlation names nobody.
func queueRig(t *testing.T, f *fakeQueues, probe string) *harmRig {
	r := &harmRig{}
	r.lender = &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}
	r.runQueues = f
	r.fill(t)
	f.culprit = r.hog
	r.agent.Configure(wanted(`{"interference": {"mode": "report", "runQueueProbe": ` + probe + `}}`))
	r.pass(60, 0.02, 4)
	return r
}

// settle waits until a look that was begun is over.
func (r *harmRig) settle() {
	r.Helper()
	r.eventually("no look is under way", func() (done bool) {
		r.agent.Ask(time.Minute, func(a *Agent) { done = !a.interference.queues.busy })
		return done
	})
}

// Nothing looks while nobody is harmed. Then what is seen names whom correlation does not, and when that is known nothing is in the kernel any more.
func TestRunQueuesNameTheCulprit(t *testing.T) {
	f := &fakeQueues{}
	r := queueRig(t, f, "true")
	if looks, _ := f.seen(); len(looks) > 0 {
		t.Errorf("nobody is harmed, and it looks: %q", looks)
	}
	for range 4 {
		r.pass(1, 0.6, 4)
		r.settle()
	}
	i := r.interference()
	if len(i.Findings) != 1 || i.Findings[0].Culprit == nil || i.Findings[0].Culprit.UID != "hog" || !strings.Contains(i.Findings[0].Message, "waited behind default/pod-hog for 80 %") {
		t.Fatalf("%+v", i)
	}
	r.pass(1, 0.6, 4)
	r.settle()
	looks, victims := f.seen()
	if victims != 0 || !slices.Contains(looks[0], r.web) || !slices.Contains(f.lastPods, r.hog) {
		t.Errorf("the culprit is known, and %d services are looked at: %q", victims, looks)
	}
	r.agent.Ask(time.Minute, func(a *Agent) {
		if c := a.interference.queues.counts; c.Looked <= 0 || c.Dropped <= 0 || c.Failed != 0 || c.Victims != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// Without the setting nothing looks, and nobody is named.
func TestRunQueuesAreOptIn(t *testing.T) {
	f := &fakeQueues{}
	r := queueRig(t, f, "false")
	for range 4 {
		r.pass(1, 0.6, 4)
		r.settle()
	}
	if looks, _ := f.seen(); len(looks) > 0 {
		t.Errorf("it is off, and looks: %q", looks)
	}
	if i := r.interference(); len(i.Findings) != 1 || i.Findings[0].Culprit != nil || slices.Contains(i.Unknown, spec.InterferenceRunQueues) {
		t.Errorf("%+v", i)
	}
}

// Where more of the waiting found no room than was counted, nobody is named: the one that found no room may be the culprit.
func TestRunQueuesDropped(t *testing.T) {
	f := &fakeQueues{dropped: 2 * time.Second}
	r := queueRig(t, f, "true")
	for range 4 {
		r.pass(1, 0.6, 4)
		r.settle()
	}
	if i := r.interference(); len(i.Findings) != 1 || i.Findings[0].Culprit != nil {
		t.Errorf("%+v", i)
	}
}

// A container's own limit keeps it from running, which the kernel says of the container alone, and counts as pressure of the pod. That is no harm, and nothing is looked at.
func TestThrottledIsNotHarmed(t *testing.T) {
	f := &fakeQueues{}
	r := queueRig(t, f, "true")
	window := func(periods, throttled int, waits float64) {
		r.counters.write("sys/fs/cgroup/"+r.main+"/cpu.stat", fmt.Sprintf("usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods %d\nnr_throttled %d\nthrottled_usec 1\n", periods, throttled))
		r.pass(1, waits, 4)
		r.settle()
	}
	window(10, 0, 0.02)
	for n := range 6 {
		window(10*(n+2), 9*(n+1), 0.6)
	}
	looks, _ := f.seen()
	if i := r.interference(); len(i.Findings) > 0 || len(looks) > 0 {
		t.Errorf("%+v, looks %q", i, looks)
	}
}

// A kernel that refuses is asked once; the report says that run queues are unknown.
func TestRunQueuesRefused(t *testing.T) {
	f := &fakeQueues{err: &runqueue.Unsupported{Message: "no CAP_BPF"}}
	r := queueRig(t, f, "true")
	for range 6 {
		r.pass(1, 0.6, 4)
		r.settle()
	}
	i := r.interference()
	if !slices.Contains(i.Unknown, spec.InterferenceRunQueues) || len(i.Findings) != 1 || i.Findings[0].Culprit != nil {
		t.Errorf("%+v", i)
	}
	if looks, _ := f.seen(); len(looks) != 2 || len(looks[0]) == 0 || len(looks[1]) > 0 {
		t.Errorf("it is asked for %q, want once, and then to rest", looks)
	}
	r.agent.Ask(time.Minute, func(a *Agent) {
		if c := a.interference.queues.counts; c.Failed == 0 {
			t.Errorf("%+v", c)
		}
	})
}

// While services are looked at, the setting, the mode and the end of the agent each take all out of the kernel.
func TestRunQueuesEnd(t *testing.T) {
	for name, end := range map[string]func(r *harmRig){
		"setting": func(r *harmRig) {
			r.agent.Configure(wanted(`{"interference": {"mode": "report", "runQueueProbe": false}}`))
		},
		"mode": func(r *harmRig) {
			r.agent.Configure(wanted(`{"interference": {"mode": "off", "runQueueProbe": true}}`))
		},
		"agent": func(r *harmRig) { r.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeQueues{}
			r := queueRig(t, f, "true")
			r.pass(2, 0.6, 4)
			r.settle()
			if _, victims := f.seen(); victims != 1 {
				t.Fatalf("%d services are looked at", victims)
			}
			end(r)
			if name == "agent" {
				if f.closed != 1 {
					t.Errorf("the agent has ended, and closed it %d times", f.closed)
				}
				return
			}
			r.pass(1, 0.6, 4)
			r.settle()
			if _, victims := f.seen(); victims != 0 {
				t.Errorf("%d services are looked at", victims)
			}
		})
	}
}
