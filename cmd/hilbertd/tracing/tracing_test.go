package tracing

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cmd/hilbertd/tracing/tracingtest"
	"hilbert.dev/hilbert/schedule"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

func start(t *testing.T, rate int) (*Recorder, *tracingtest.Collector) {
	t.Helper()
	c := tracingtest.New(t)
	r, err := New(spec.Tracing{Endpoint: c.URL, SamplingRatePerMillion: rate}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

func closed(t *testing.T, r *Recorder, seconds int) {
	t.Helper()
	if err := r.Close(at(seconds)); err != nil {
		t.Fatal(err)
	}
}

func pod(uid string) *cluster.Pod {
	return &cluster.Pod{UID: facts.UID(uid), Namespace: "shop", Name: "web-0"}
}

// TestWay follows a pod that fits nowhere, preempts, loses its place and is bound in the end.
func TestWay(t *testing.T) {
	r, c := start(t, million)
	p := pod("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
	since := at(0)
	r.Unschedulable(p, []schedule.FilterCount{{Filter: "Resources", Nodes: 3}}, since, at(1))
	r.Unschedulable(p, nil, since, at(2))
	r.Preempting(p, 2, since, at(3))
	r.Cleared(p, since, at(5))
	r.Released(p, "the Binding was refused", since, at(6))
	r.Placed(p, since, at(8))
	r.Bound(p, at(9))
	r.Gone(p.UID, at(10)) // the watch says what is known
	closed(t, r, 11)
	var got []string
	for _, s := range c.Spans() {
		if s.Trace != "3f2504e04f8941d39a0c0305e82c3301" {
			t.Errorf("%s is of trace %s", s.Name, s.Trace)
		}
		got = append(got, fmt.Sprintf("%s %d-%d root=%t events=%d victims=%s outcome=%s %s", s.Name, s.Start.Unix()-began.Unix(), s.End.Unix()-began.Unix(), s.Root, s.Events,
			s.Attributes["hilbert.victims"], s.Attributes["hilbert.outcome"], s.Error))
		if s.Root && (s.Attributes["k8s.pod.name"] != "web-0" || s.Attributes["k8s.namespace.name"] != "shop" || s.Attributes["k8s.pod.uid"] != string(p.UID)) {
			t.Errorf("it is about %v", s.Attributes)
		}
	}
	want := `wait 0-3 root=false events=2 victims= outcome= 
wait for victims 3-5 root=false events=0 victims=2 outcome= 
bind 5-6 root=false events=0 victims= outcome= the Binding was refused
wait 6-8 root=false events=0 victims= outcome= 
bind 8-9 root=false events=0 victims= outcome= 
schedule pod 0-9 root=true events=0 victims= outcome=bound `
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestEnds: what is under way when a pod goes, and when the process stops deciding, is sent too, and says so; a pod of another leader is not.
func TestEnds(t *testing.T) {
	r, c := start(t, million)
	r.Placed(pod("a"), at(0), at(1))
	r.Gone("a", at(2))
	r.Gone("never seen", at(2))
	r.Released(pod("never placed here"), "", at(0), at(2))
	r.Placed(pod("b"), time.Time{}, at(3))
	closed(t, r, 4)
	outcomes := make(map[string]int)
	for _, s := range c.Spans() {
		if s.Root {
			outcomes[s.Attributes["hilbert.outcome"]]++
		}
	}
	if len(outcomes) != 2 || outcomes[outcomeGone] != 1 || outcomes[outcomeHandedOver] != 1 {
		t.Errorf("outcomes: %v", outcomes)
	}
}

// TestBounds: no more than MaxOpen are traced at once, none has more than maxEvents events, and memory comes back.
func TestBounds(t *testing.T) {
	r, c := start(t, million)
	for i := range MaxOpen + 10 {
		r.Placed(pod(fmt.Sprint("crowd-", i)), at(0), at(1))
	}
	if len(r.open) != MaxOpen || r.skipped.Load() != 10 {
		t.Errorf("%d are traced, %d skipped", len(r.open), r.skipped.Load())
	}
	r.Reset(at(2))
	if len(r.open) != 0 {
		t.Errorf("%d are left", len(r.open))
	}
	if err := r.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(c.Spans())
	for i := range 10 * maxEvents {
		r.Unschedulable(pod("unlucky"), nil, at(0), at(i))
	}
	closed(t, r, 1000)
	for _, s := range c.Spans()[before:] {
		if s.Name == "wait" && (s.Events != maxEvents || s.Dropped != 9*maxEvents) {
			t.Errorf("%d events, and %d that were dropped", s.Events, s.Dropped)
		}
	}
}

// TestSampling: of many pods about as many are traced as wanted, and each Recorder chooses the same.
func TestSampling(t *testing.T) {
	a, _ := start(t, 100_000)
	b, _ := start(t, 100_000)
	n := 0
	for i := range 10_000 {
		uid := facts.UID(fmt.Sprintf("%08x-4f89-41d3-9a0c-0305e82c3301", uint32(i)*2654435761))
		if a.sampled(uid) != b.sampled(uid) {
			t.Fatalf("%s is traced by one only", uid)
		}
		if a.sampled(uid) {
			n++
		}
	}
	if n < 900 || n > 1100 {
		t.Errorf("of 10000 pods %d are traced, about 1000 are wanted", n)
	}
	closed(t, a, 1)
	closed(t, b, 1)
}

// TestCollectorRefuses: what the collector does not take is counted, and lost.
func TestCollectorRefuses(t *testing.T) {
	r, c := start(t, million)
	c.Answer(http.StatusForbidden)
	r.Placed(pod("a"), at(0), at(1))
	r.Bound(pod("a"), at(2))
	closed(t, r, 3)
	if len(c.Spans()) != 0 || r.unsent.Load() != 3 {
		t.Errorf("%d spans came, %d are counted as unsent", len(c.Spans()), r.unsent.Load())
	}
}

// TestOff: without an endpoint, or with a rate of 0, there is no Recorder; and none does nothing.
func TestOff(t *testing.T) {
	for _, c := range []spec.Tracing{{SamplingRatePerMillion: million}, {Endpoint: "http://127.0.0.1:1"}} {
		if r, err := New(c, slog.New(slog.DiscardHandler)); r != nil || err != nil {
			t.Errorf("%+v: %v, %v", c, r, err)
		}
	}
	if _, err := New(spec.Tracing{Endpoint: "http://a b", SamplingRatePerMillion: 1}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "tracing.endpoint") {
		t.Errorf("an endpoint that is no URL: %v", err)
	}
	var none *Recorder
	none.Placed(pod("a"), at(0), at(1))
	none.Unschedulable(pod("a"), nil, at(0), at(1))
	none.Preempting(pod("a"), 1, at(0), at(1))
	none.Cleared(pod("a"), at(0), at(1))
	none.Released(pod("a"), "", at(0), at(1))
	none.Bound(pod("a"), at(2))
	none.Gone("a", at(2))
	none.Reset(at(2))
	closed(t, none, 3)
}
