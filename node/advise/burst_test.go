package advise

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

// A pod that is throttled may burst until it was not for a while; what is not known ends nothing early and begins nothing.
func TestBurstFollowsThrottling(t *testing.T) {
	p := &spec.CPUBurst{Share: 0.5, Throttled: 0.05, Hold: spec.Duration(10 * time.Second)}
	var s BurstState
	for i, x := range []struct {
		at   time.Duration
		seen Sample
		want bool
	}{
		{0, Known(0), false},
		{time.Second, Sample{Value: 1}, false},
		{2 * time.Second, Known(0.049), false},
		{3 * time.Second, Known(0.05), true},
		{4 * time.Second, Known(0), true},
		{12 * time.Second, Sample{}, true},
		{13 * time.Second, Sample{}, false},
		{14 * time.Second, Known(0.9), true},
		{20 * time.Second, Known(0.9), true},
		{29 * time.Second, Known(0), true},
		{30 * time.Second, Known(0), false},
		{31 * time.Second, Known(0.9), true},
		{5 * time.Second, Known(0), false}, // the clock went back
	} {
		if got := StepBurst(x.at, []BurstPod{{"a", x.seen}, {"b", Known(0)}}, p, &s); got["a"] != x.want || got["b"] {
			t.Errorf("%d: at %v with %+v: %v, want %v", i, x.at, x.seen, got, x.want)
		}
	}
	StepBurst(40*time.Second, []BurstPod{{"a", Known(1)}}, p, &s)
	if got := StepBurst(41*time.Second, nil, p, &s); len(got) > 0 || len(s.until) > 0 {
		t.Errorf("a pod that has gone is remembered: %v", s.until)
	}
	StepBurst(42*time.Second, []BurstPod{{"a", Known(1)}}, p, &s)
	p.Hold = spec.Duration(time.Second)
	StepBurst(43*time.Second, []BurstPod{{"a", Known(0)}}, p, &s)
	if got := StepBurst(44*time.Second, []BurstPod{{"a", Known(0)}}, p, &s); len(got) > 0 {
		t.Error("a shorter hold does not count")
	}
	StepBurst(45*time.Second, []BurstPod{{"a", Known(1)}}, p, &s)
	off := *p
	off.Share = 0
	if got := StepBurst(45*time.Second, []BurstPod{{"a", Known(1)}}, &off, &s); len(got) > 0 {
		t.Error("it is off, and a pod may burst")
	}
	if got := StepBurst(45*time.Second, []BurstPod{{"a", Known(0)}}, p, &s); len(got) > 0 {
		t.Error("what was before it was off is remembered")
	}
}

// No burst is above its limit, and where there is no limit there is none.
func TestBurstIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quota, share := rapid.Int64Range(-1, 1<<50).Draw(t, "quota"), rapid.Float64Range(-1, 3).Draw(t, "share")
		got := BurstOf(quota, share)
		if got < 0 || got > max(quota, 0) || share <= 0 && got != 0 || share == 1 && quota > 0 && got < quota-1<<10 {
			t.Fatalf("%d of %d with %v", got, quota, share)
		}
	})
}
