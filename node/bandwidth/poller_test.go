package bandwidth

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"hilbert.dev/hilbert/internal/clock"
)

// Pods that speak of bandwidth come first, for half of the groups; where one is sensitive, reclaimed ones; then the largest users.
func TestOrder(t *testing.T) {
	c := func(uid string, use float64, said, reclaimed bool) Candidate {
		return Candidate{Pod{UID: uid, Reclaimed: reclaimed}, said, use}
	}
	list := []Candidate{
		c("small", 1, false, false), c("unknown", math.NaN(), false, false), c("large", 9, false, false), c("lent", 2, false, true),
		c("says", 0.1, true, false), c("says-too", 0.2, true, true), c("says-as-well", 0.05, true, false),
	}
	for _, test := range []struct {
		sensitive bool
		groups    int
		want      string
	}{
		{false, 8, "[says-too says says-as-well large lent small unknown]"},
		{true, 8, "[says-too says says-as-well lent large small unknown]"},
		{false, 3, "[says-too says large lent small says-as-well unknown]"},
	} {
		var got []string
		for _, p := range Order(list, test.sensitive, test.groups) {
			got = append(got, p.UID)
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("sensitive %t, %d groups: %v, want %s", test.sensitive, test.groups, got, test.want)
		}
	}
}

// The loop asks beside the reader. What is old is not known any more. At the end all groups are gone.
func TestPoller(t *testing.T) {
	at := clock.NewStepped(time.Unix(1000, 0))
	r := newRig(8, "web")
	p := NewPoller(r.Reader, at)
	p.Watch(r.pods)
	begun := at.Now()
	for range 2 {
		at.Advance(Interval)
		r.run(10, 5e9)
		p.Read(begun)
	}
	if got := p.Of("web", at.Now()); !got.Total.Known || got.Total.Value != 1e9 || p.Of("db", at.Now()).Total.Known || p.Status().Known != 1 {
		t.Errorf("%+v, %+v", got, p.Status())
	}
	if got := p.Of("web", at.Now().Add(4*Interval)); got.Total.Known {
		t.Errorf("an old value is %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Run(ctx); len(r.ours()) > 0 || p.Of("web", at.Now()).Total.Known {
		t.Errorf("at the end there are %q", r.ours())
	}
}

// Without groups a Poller removes what is left, and reads nothing.
func TestPollerOff(t *testing.T) {
	r := newRig(0, "web")
	r.dirs["mon_groups/hilbert-pod-left"], r.dirs["mon_groups/other"] = &fakeGroup{}, &fakeGroup{}
	p := NewPoller(r.Reader, nil)
	p.Watch(r.pods)
	p.Read(time.Now())
	if len(r.ours()) > 0 || r.dirs["mon_groups/other"] == nil || r.writes > 0 {
		t.Errorf("%q, %d writes", r.ours(), r.writes)
	}
}

// How many groups there may be is changed while it runs: those that are more go at the next reading, and come again; what is known of others goes on.
func TestPollerLimit(t *testing.T) {
	at := clock.NewStepped(time.Unix(1000, 0))
	r := newRig(0, "web", "db", "scan")
	p := NewPoller(r.Reader, at)
	p.Watch(r.pods)
	begun := at.Now()
	for _, groups := range []int{0, 2, 3, 1, 0, 1} {
		p.Limit(groups)
		for range 2 {
			at.Advance(Interval)
			r.run(10, 5e9)
			p.Read(begun)
		}
		if s := p.Status(); len(r.ours()) != groups || s.Known != groups || s.Groups != groups || s.Why != nil || p.Of("web", at.Now()).Total.Known != (groups > 0) {
			t.Errorf("%d groups: %q, %+v", groups, r.ours(), s)
		}
	}
}
