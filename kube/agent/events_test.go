package agent

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/standin"
)

func aboutPod0(i int) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("u", i))}
}

// eventLog plays a book and checks what it says: no more writes than the budget allows, one creation of a series, counts that only grow.
type eventLog struct {
	*eventBook
	start, now time.Time
	writes     int
	told       map[string]int32 // by event name
}

func (l *eventLog) step(t *rapid.T) {
	w, wait := l.next(l.now)
	if w == nil {
		if wait <= 0 {
			t.Fatal("nothing to do, at once")
		}
		return
	}
	l.writes++
	if most := eventBurst + l.now.Sub(l.start).Minutes() + 1e-9; float64(l.writes) > most {
		t.Fatalf("%d writes after %s", l.writes, l.now.Sub(l.start))
	}
	if before, ok := l.told[w.name]; w.count == 1 && ok || w.count > 1 && w.count <= before {
		t.Fatalf("%s: %d after %d", w.name, w.count, before)
	}
	outcome := rapid.SampledFrom([]eventOutcome{eventTold, eventTold, eventTold, eventAgain}).Draw(t, "outcome")
	l.ended(l.now, w, outcome)
	if outcome == eventTold {
		l.told[w.name] = w.count
	}
}

// Whatever happens is told in the end, and within the budget.
func TestEventBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1_700_000_000, 0)
		l := &eventLog{eventBook: newEventBook(start), start: start, now: start, told: make(map[string]int32)}
		recorded := 0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			l.now = l.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second)
			if rapid.Bool().Draw(t, "record") {
				l.record(l.now, aboutPod0(rapid.IntRange(0, 5).Draw(t, "pod")), rapid.SampledFrom([]string{"A", "B"}).Draw(t, "reason"), "note")
				recorded++
			}
			l.step(t)
		}
		for range 1000 {
			l.now = l.now.Add(seriesInterval)
			l.step(t)
		}
		sum := 0
		for _, s := range l.series {
			sum += int(s.count)
			if s.told != s.count {
				t.Fatalf("%s: told %d of %d", s.name, s.told, s.count)
			}
		}
		if sum > recorded {
			t.Fatalf("counted %d of %d", sum, recorded)
		}
	})
}

func TestEventSeries(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	b := newEventBook(now)
	expect := func(wantName string, wantCount int32) {
		t.Helper()
		w, _ := b.next(now)
		if w == nil || w.about.Name != wantName || w.count != wantCount {
			t.Fatalf("got %+v, want %s with %d", w, wantName, wantCount)
		}
		b.ended(now, w, eventTold)
	}
	quiet := func() {
		t.Helper()
		if w, _ := b.next(now); w != nil {
			t.Fatalf("got %+v", w)
		}
	}
	for range 3 {
		b.record(now, aboutPod0(0), "R", strings.Repeat("ü", apiserver.MaxEventNote))
	}
	expect("p0", 1)
	if note := b.series[seriesKey{"u0", "R"}].note; len(note) > apiserver.MaxEventNote || !utf8.ValidString(note) {
		t.Errorf("a note of %d bytes", len(note))
	}
	quiet() // the repetitions wait
	b.record(now, aboutPod0(1), "R", "")
	expect("p1", 1) // what begins does not
	now = now.Add(seriesInterval)
	expect("p0", 3)
	quiet()

	b.record(now, aboutPod0(0), "R", "")
	now = now.Add(seriesInterval)
	w, _ := b.next(now)
	b.ended(now, w, eventGone) // the API server has forgotten it
	expect("p0", 1)
	now = now.Add(seriesInterval)
	expect("p0", 4)

	now = now.Add(seriesEnds)
	b.record(now, aboutPod0(0), "R", "")
	expect("p0", 1) // anew
	quiet()
}

// Neither what is remembered nor what is written grows without bound.
func TestEventsAreBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	b := newEventBook(now)
	for i := range maxSeries + 50 {
		b.record(now, aboutPod0(i), "R", "")
	}
	if len(b.series) != maxSeries || b.dropped != 50 {
		t.Errorf("%d series, %d dropped", len(b.series), b.dropped)
	}
	writes := 0
	for {
		w, wait := b.next(now)
		if w == nil {
			if wait != eventRefill {
				t.Errorf("waits %s", wait)
			}
			break
		}
		b.ended(now, w, eventTold)
		writes++
	}
	if writes != eventBurst {
		t.Errorf("%d writes at once", writes)
	}
	now = now.Add(24 * time.Hour)
	for w, _ := b.next(now); w != nil; w, _ = b.next(now) {
		b.ended(now, w, eventAgain)
	}
	for range 10_000 { // one that is refused again and again is given up
		now = now.Add(eventRefill)
		if w, _ := b.next(now); w != nil {
			b.ended(now, w, eventAgain)
		}
	}
	b.record(now, aboutPod0(-1), "R", "")
	if len(b.series) != 1 {
		t.Errorf("%d series remain", len(b.series))
	}
}

func TestNodeEvents(t *testing.T) {
	s := standin.New(t)
	var failing atomic.Bool
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if failing.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return failing.Load()
	})
	e, err := NewEvents(t.Context(), s.Connection(), "n", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	e.Record("ns", "p", "u", spec.ReasonPromiseBroken, "no room")
	e.Record("ns", "p", "u", spec.ReasonPromiseMoved, "elsewhere")
	e.Record("", "", "", spec.ReasonRuntimeLost, "containerd is gone")
	text := func(u *unstructured.Unstructured) string {
		kind, _, _ := unstructured.NestedString(u.Object, "regarding", "kind")
		name, _, _ := unstructured.NestedString(u.Object, "regarding", "name")
		return fmt.Sprint(u.Object["type"], " ", u.Object["reason"], " ", u.Object["note"], " ", kind, " ", name, " in ", u.GetNamespace(), " by ",
			u.Object["reportingController"], " ", u.Object["reportingInstance"])
	}
	want := map[string]bool{
		"Warning PromiseBroken no room Pod p in ns by hilbert.dev/agent n":                true,
		"Normal PromiseMoved elsewhere Pod p in ns by hilbert.dev/agent n":                true,
		"Warning RuntimeLost containerd is gone Node n in default by hilbert.dev/agent n": true,
	}
	for deadline := time.Now().Add(time.Minute); len(s.Events()) < len(want); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("events %v", s.Events())
		}
	}
	for _, u := range s.Events() {
		if !want[text(u)] || u.Object["eventTime"] == nil || u.Object["action"] == "" {
			t.Errorf("event %s", text(u))
		}
	}
	failing.Store(true)
	e.Record("ns", "q", "v", spec.ReasonPromiseBroken, "")
	if e.Dropped() != 0 {
		t.Error("dropped")
	}
}
