package interference

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rig is an agent's Book on a node with a service, a steady neighbour and a hog. The agent may end and start.
type rig struct {
	*testing.T

	rules Rules
	book  *Book
	now   time.Time
	last  *Decision
	moved bool // the hog's pod is another one than before
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, rules: DefaultRules(), now: start}
	r.book = NewBook(&r.rules)
	return r
}

// pass lets windows pass in which the service waits so long and the hog uses so many CPUs; less than 0: there is none.
func (r *rig) pass(windows int, delay, hog float64) {
	none := math.NaN()
	for range windows {
		r.now = r.now.Add(Length)
		pods := []Reading{
			{ID: "web", Name: "web", Watched: true, Request: 2, Use: 1, Delay: delay, Pressure: none, Indicator: none, Cycles: none, Bandwidth: none},
			{ID: "steady", Name: "steady", Limitable: true, Evictable: true, Use: 3, Bandwidth: none},
		}
		if hog >= 0 {
			pods = append(pods, Reading{ID: fmt.Sprint("hog", r.moved), Name: "hog", Limitable: true, Evictable: true, Use: hog, Bandwidth: none})
		}
		if d := r.book.Step(r.now, pods); d != nil {
			r.last = d
		}
	}
}

// restart has the agent end, and start after a while. kept: what it knew is on disk.
func (r *rig) restart(dead time.Duration, kept bool) (int, error) {
	r.Helper()
	data, err := json.Marshal(r.book.State())
	if err != nil {
		r.Fatal(err)
	}
	r.book = NewBook(&r.rules)
	r.now = r.now.Add(dead)
	r.last = nil
	r.pass(1, 0.1, -1) // the first reading begins a window
	r.book = NewBook(&r.rules)
	if !kept {
		return 0, nil
	}
	var state State
	if err := json.Unmarshal(data, &state); err != nil {
		r.Fatal(err)
	}
	return r.book.Restore(&state, r.now)
}

// named is the one who is named; empty: nobody is.
func (r *rig) named() string {
	if r.last == nil || len(r.last.Findings) == 0 {
		return ""
	}
	return r.last.Findings[0].Culprit
}

// Harm that began before the agent ended, while it was away, or soon after it started again is named as soon as it has lasted for three windows; without what was kept, never.
func TestNamedAfterRestart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(r *rig)
		dead time.Duration
		hog  float64 // before the harm; less than 0: there is none
	}{
		"in the middle of it":        {func(r *rig) { r.pass(2, 3, 8) }, 30 * time.Second, 0},
		"while it was limited":       {func(r *rig) { r.pass(4, 3, 8); r.pass(2, 3, 2) }, 30 * time.Second, 0},
		"it began meanwhile":         {func(*rig) {}, 2 * time.Minute, 0},
		"it began at once":           {func(*rig) {}, 10 * time.Second, -1},
		"the hog's pod is a new one": {func(r *rig) { r.moved = true }, 20 * time.Second, 3},
	} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, kept %t", name, kept), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.pass(60, 0.1, c.hog)
				c.play(r)
				if services, err := r.restart(c.dead, kept); err != nil || kept != (services == 1) {
					t.Fatalf("%d services, %v", services, err)
				}
				r.pass(5, 3, 8)
				want := ""
				if kept {
					want = fmt.Sprint("hog", r.moved)
				}
				if got := r.named(); got != want {
					t.Errorf("named: %q, want %q: %+v", got, want, r.last)
				}
			})
		}
	}
}

// Who was there all the time is not named for having been unseen while the agent was away.
func TestAwayNamesNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.pass(60, 0.1, 8)
	if _, err := r.restart(3*time.Minute, true); err != nil {
		t.Fatal(err)
	}
	r.pass(8, 3, 8)
	if got := r.named(); got != "" || len(r.last.Findings) != 1 {
		t.Errorf("%+v", r.last)
	}
}

// After long the windows of before say nothing of who comes: what is usual is known, and nobody is named before calm was seen again.
func TestLongAwayForgetsWindows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.pass(60, 0.1, 0)
	if _, err := r.restart(50*time.Minute, true); err != nil {
		t.Fatal(err)
	}
	r.pass(8, 3, 8)
	if got := r.named(); got != "" || len(r.last.Findings) != 1 {
		t.Errorf("%+v", r.last)
	}
}

// The pause between two evictions lasts over a restart, and over what is too old.
func TestEvictionPauseOutlastsTheAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause, dead time.Duration
		stale       bool
	}{"soon": {20 * time.Minute, 20 * time.Second, false}, "late": {6 * time.Hour, 2 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.rules.EvictPause = c.pause
			r.pass(60, 0.1, 0)
			r.pass(7, 3, 8)
			if r.last.Evict != "hogfalse" {
				t.Fatalf("%+v", r.last)
			}
			evicted := r.book.Evicted()
			services, err := r.restart(c.dead, true)
			if stale := errors.Is(err, ErrStale); stale != c.stale || stale != (services == 0) {
				t.Fatalf("%d services, %v", services, err)
			}
			r.moved = true
			r.pass(61, 0.1, 0)
			for r.pass(7, 3, 8); r.now.Sub(evicted) < c.pause; r.pass(1, 3, 8) {
				if r.last.Evict != "" {
					t.Fatalf("evicted after %v: %+v", r.now.Sub(evicted), r.last)
				}
				if r.named() != "hogtrue" {
					t.Fatalf("%+v", r.last)
				}
				if r.now.Sub(evicted) > time.Hour {
					return
				}
			}
			if r.pass(3, 3, 8); r.last.Evict != "hogtrue" {
				t.Errorf("after the pause: %+v", r.last)
			}
		})
	}
}

// What is usual is gone on with for an hour, and not after.
func TestStaleStateIsNotTaken(t *testing.T) {
	t.Parallel()
	for dead, want := range map[time.Duration]bool{time.Minute: true, 59 * time.Minute: true, 61 * time.Minute: false, 48 * time.Hour: false, -time.Hour: false} {
		r := newRig(t)
		r.pass(60, 0.1, 0)
		services, err := r.restart(dead, true)
		if got := services == 1 && err == nil; got != want || !want && !errors.Is(err, ErrStale) {
			t.Errorf("after %v: %d services, %v", dead, services, err)
		}
		r.pass(2, 0.1, 0)
		if learned := r.last.Learning == 0; learned != want {
			t.Errorf("after %v: %+v", dead, r.last)
		}
	}
}

// TestStateIsWhole: what is kept is what is known, whatever was read; it is bounded, and one that is restored keeps the same.
func TestStateIsWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := DefaultRules()
		rules.Watch.Enough, rules.Watch.High = 2, 2
		b, now := NewBook(&rules), start
		odd := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 0, 0.1, 1, 5, 1e9, 1e300, math.MaxFloat64})
		for range rapid.IntRange(1, 100).Draw(t, "readings") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{5, 10, 10, 10, 40}).Draw(t, "seconds")) * time.Second)
			b.Step(now, oddReadings(t, odd))
		}
		s := b.State()
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if s == nil {
			return
		}
		if err := s.validate(&rules.Watch); err != nil {
			t.Fatal(err)
		}
		read := &State{}
		if err := json.Unmarshal(data, read); err != nil {
			t.Fatal(err)
		}
		next := NewBook(&rules)
		if _, err := next.Restore(read, now); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(next.State())
		if err != nil || string(again) != string(data) {
			t.Fatalf("%v\n%s\n%s", err, data, again)
		}
	})
}

// FuzzState: whatever is on disk, a Book goes on, keeps its bounds, and can be kept again.
func FuzzState(f *testing.F) {
	r := &rig{rules: DefaultRules(), now: start}
	r.book = NewBook(&r.rules)
	r.pass(40, 0.1, 0)
	r.pass(5, 3, 8)
	good, err := json.Marshal(r.book.State())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	for _, bad := range []string{"", "{", "null", `{"version":2}`, `{"version":1,"windows":-1}`, `{"version":1,"windows":1,"pods":[{"id":"web","rows":[[1,null,3]],"bins":[]}]}`, `{"version":1,"windows":2,"pods":[{"id":"web","rows":[[1]]}]}`} {
		f.Add([]byte(bad))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s State
		if json.Unmarshal(data, &s) != nil {
			return
		}
		r := newRig(t)
		if s.At.Year() > 1 && s.At.Year() < 3000 {
			r.now = s.At.Add(10 * time.Second)
		}
		_, _ = r.book.Restore(&s, r.now)
		r.pass(3, 0.1, 0)
		r.pass(4, 3, 8)
		if r.last.Evict != "" || len(r.book.history.pods) > maxNeighbours || len(r.book.restored) > MaxWatched {
			t.Errorf("%+v", r.last)
		}
		if _, err := json.Marshal(r.book.State()); err != nil {
			t.Error(err)
		}
	})
}
