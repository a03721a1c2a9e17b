package events

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// waits is a ledger with pods that wait.
func waits(count int) *cluster.Store {
	store := cluster.NewStore()
	for p := range count {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid(p), Namespace: "default", Name: string(uid(p)), Ours: true, Requirements: &facts.Requirements{}}})
	}
	return store
}

// podWorld plays the pods that wait, the API server and the watch.
type podWorld struct {
	store  *cluster.Store
	pods   *Pods
	now    time.Time
	want   map[facts.UID]string // why each waits
	said   map[facts.UID]string // by its last event
	at     map[facts.UID]time.Time
	writes []time.Time
	open   map[uint64]bind.WriteID
}

const manyPods = 150

func newPodWorld() *podWorld {
	store := waits(manyPods)
	return &podWorld{
		store: store, pods: NewPods(store, false), now: began, want: make(map[facts.UID]string), said: make(map[facts.UID]string), at: make(map[facts.UID]time.Time),
		open: make(map[uint64]bind.WriteID),
	}
}

// fail says of forty pods why they wait.
func (w *podWorld) fail(t *rapid.T) {
	from := rapid.IntRange(0, manyPods-1).Draw(t, "pod")
	for i := from; i < min(from+40, manyPods); i++ {
		if pod := w.store.Pod(uid(i)); pod != nil && pod.Phase == cluster.Pending {
			w.want[pod.UID] = rapid.SampledFrom([]string{"cpu", "memory"}).Draw(t, "why")
			w.pods.Failed(pod, w.want[pod.UID])
		}
	}
}

// leave binds a pod, or removes it.
func (w *podWorld) leave(t *rapid.T) {
	u := uid(rapid.IntRange(0, manyPods-1).Draw(t, "pod"))
	if pod := w.store.Pod(u); pod != nil && rapid.Bool().Draw(t, "bound") {
		w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: u, Namespace: "default", Name: string(u), Ours: true, Node: "n", Requirements: &facts.Requirements{}}})
	} else {
		w.store.Apply(facts.PodRemoved{UID: u})
		w.pods.Forget(u)
	}
	delete(w.want, u)
}

func (w *podWorld) answer(outcome func() bind.Outcome) {
	for n, id := range w.open {
		w.pods.Finish(bind.Result{ID: id, Outcome: outcome()})
		delete(w.open, n)
	}
}

// take takes what is ready, and judges it.
func (w *podWorld) take(t *rapid.T) {
	for _, x := range w.pods.Ready(w.now) {
		switch last, told := w.at[x.Pod]; {
		case x.Kind != bind.WriteEvent || x.Condition.Message != w.want[x.Pod] || w.store.Pod(x.Pod) == nil:
			t.Fatalf("%+v, where %q is to be told", x, w.want[x.Pod])
		case told && w.now.Sub(last) < failureInterval:
			t.Fatalf("%s is told of twice within %v", x.Pod, w.now.Sub(last))
		case told && w.said[x.Pod] == x.Condition.Message:
			t.Fatalf("%s is told the same again", x.Pod)
		}
		w.said[x.Pod], w.at[x.Pod] = x.Condition.Message, w.now
		w.writes = append(w.writes, w.now)
		w.open[x.ID.Number] = x.ID
	}
	if len(w.open) > MaxPodsInFlight {
		t.Fatalf("%d writes under way", len(w.open))
	}
}

// judge is what holds when nothing is left to tell.
func (w *podWorld) judge(t *rapid.T) {
	for u, message := range w.want {
		if w.said[u] != message {
			t.Fatalf("%s waits because of %q, and was told %q", u, message, w.said[u])
		}
	}
	for i := range w.writes {
		if most := failuresBurst + failuresPerSecond; i+most < len(w.writes) && w.writes[i+most].Sub(w.writes[i]) < time.Second {
			t.Fatalf("more than %d events in a second", most)
		}
	}
}

// Of each pod that waits the first message is told, and then the newest, if it is another, each five minutes: nothing else, and nothing of pods that are gone; never
// more in a second than the budget.
func TestFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newPodWorld()
		for range rapid.IntRange(30, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1:
				w.fail(t)
			case 2:
				w.leave(t)
			case 3:
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "s")) * time.Second)
			default:
				w.answer(func() bind.Outcome {
					return rapid.SampledFrom([]bind.Outcome{bind.Written, bind.Refused, bind.Unknown}).Draw(t, "outcome")
				})
			}
			w.take(t)
		}
		for range 3 * manyPods {
			w.answer(func() bind.Outcome { return bind.Written })
			if wake, ok := w.pods.NextWake(w.now); ok && wake.After(w.now) {
				w.now = wake
			}
			w.take(t)
		}
		w.judge(t)
	})
}

// Placements are told only if asked for, each once, as many as there is room for.
func TestPlacements(t *testing.T) {
	store := waits(0)
	for i := range maxDone + 5 {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid(i), Namespace: "default", Name: string(uid(i)), Node: "n", Requirements: &facts.Requirements{}}})
	}
	for _, asked := range []bool{false, true} {
		p := NewPods(store, asked)
		for i := range maxDone + 5 {
			p.Placed(store.Pod(uid(i)))
		}
		told := make(map[facts.UID]bool)
		for writes := p.Ready(began); len(writes) > 0; writes = p.Ready(began) {
			for _, w := range writes {
				if told[w.Pod] || w.Condition.Reason != "Scheduled" || w.Condition.Message != fmt.Sprintf("Successfully assigned default/%s to n", w.Name) {
					t.Fatalf("%+v", w)
				}
				told[w.Pod] = true
				p.Finish(bind.Result{ID: w.ID, Outcome: bind.Written})
			}
		}
		if want := map[bool]int{true: maxDone}[asked]; len(told) != want || asked && p.Backlog().Dropped != 5 {
			t.Errorf("asked for %v: %d told, want %d; %d dropped", asked, len(told), want, p.Backlog().Dropped)
		}
	}
}

// The same message is told once, however long the pod waits; another one after the interval.
func TestFailuresAgain(t *testing.T) {
	store, now := waits(1), began
	p := NewPods(store, false)
	for i, c := range []struct {
		after   time.Duration
		message string
		want    int
	}{
		{0, "cpu", 1},
		{time.Second, "memory", 0},
		{time.Minute, "cpu", 0},
		{failureInterval, "cpu", 0},
		{failureInterval, "cpu", 0},
		{failureInterval, "memory", 1},
		{time.Minute, "cpu", 0},
		{time.Minute, "disk", 0},
		{failureInterval, "disk", 1},
	} {
		now = now.Add(c.after)
		p.Failed(store.Pod(uid(0)), c.message)
		writes := p.Ready(now)
		if len(writes) != c.want || c.want > 0 && writes[0].Condition.Message != c.message {
			t.Errorf("step %d: %v, want %d", i, writes, c.want)
		}
		for _, w := range writes {
			p.Finish(bind.Result{ID: w.ID, Outcome: bind.Written})
		}
	}
	if at, wakes := p.NextWake(now); wakes {
		t.Errorf("there is nothing to tell, and it wakes at %v", at)
	}
	p.Failed(store.Pod(uid(0)), "cpu")
	if at, wakes := p.NextWake(now); !wakes || !at.Equal(now.Add(failureInterval)) {
		t.Errorf("there is another message, and it wakes at %v (%v)", at, wakes)
	}
	p.Forget(uid(0))
	if at, wakes := p.NextWake(now); wakes {
		t.Errorf("the pod waits no more, and it wakes at %v", at)
	}
}

// A victim's event names who takes its place to those alone who may see that one: the pods of its own namespace.
func TestPreempted(t *testing.T) {
	store := waits(0)
	for _, namespace := range []string{"a", "b"} {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID("uid-" + namespace), Namespace: namespace, Name: "preemptor", Ours: true, Requirements: &facts.Requirements{}}})
	}
	victim := bind.PodName{Namespace: "a", Name: "victim", UID: "uid-victim"}
	for by, want := range map[facts.UID]bind.Write{
		"uid-a": {
			Condition: facts.Condition{Reason: "Preempted", Message: "Preempted by pod uid-a (preemptor) on node n"},
			Related:   bind.PodName{Namespace: "a", Name: "preemptor", UID: "uid-a"},
		},
		"uid-b": {Condition: facts.Condition{Reason: "Preempted", Message: "Preempted by pod uid-b on node n"}},
	} {
		p := NewPods(store, false)
		p.Preempted(victim, "n", store.Pod(by))
		writes := p.Ready(began)
		if len(writes) != 1 || writes[0].Pod != "uid-victim" || writes[0].Namespace != "a" || writes[0].Name != "victim" ||
			writes[0].Condition != want.Condition || writes[0].Related != want.Related {
			t.Errorf("by %s: %+v, want %+v", by, writes, want)
		}
	}
}

// A gang is told of as a pod is, and under its PodGroup: why it waits, until it is whole or gone.
func TestUnits(t *testing.T) {
	name := facts.UnitName{Namespace: "default", Name: "g"}
	begin := func() (*cluster.Store, *Pods) {
		store := cluster.NewStore()
		store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: name, UID: "uid-g", MinMember: 2}})
		return store, NewPods(store, false)
	}
	said := func(p *Pods, now time.Time) (notes []string) {
		for _, w := range p.Ready(now) {
			if w.Unit != name || w.UnitUID != "uid-g" || w.Name != "g" || w.Pod != "" {
				t.Errorf("%+v", w)
			}
			notes = append(notes, w.Condition.Reason+": "+w.Condition.Message)
			p.Finish(bind.Result{ID: w.ID, Outcome: bind.Written})
		}
		return notes
	}
	store, p := begin()
	p.UnitFailed(store.Units().Get(name), "cpu")
	p.UnitFailed(store.Units().Get(name), "memory")
	if got := said(p, began); fmt.Sprint(got) != "[FailedScheduling: memory]" {
		t.Errorf("it waits: %v", got)
	}
	p.UnitFailed(store.Units().Get(name), "disk")
	p.UnitPlaced(store.Units().Get(name), "2 of 2")
	if got := said(p, began.Add(2*failureInterval)); fmt.Sprint(got) != "[Scheduled: 2 of 2]" {
		t.Errorf("it is whole: %v", got)
	}
	store, p = begin()
	p.UnitFailed(store.Units().Get(name), "cpu")
	store.Apply(facts.UnitRemoved{Name: name})
	if got := said(p, began); got != nil {
		t.Errorf("it is gone: %v", got)
	}
}
