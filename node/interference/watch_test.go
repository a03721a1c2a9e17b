package interference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

// bench shows windows to a Watch: the delay follows the load, plus what the hog adds.
type bench struct {
	watch  *Watch
	random *rand.Rand
	n      int
	passes int // pods that each window has for the first time and the last
}

func newBench() *bench {
	p := DefaultParams()
	return &bench{watch: NewWatch(&p), random: rand.New(rand.NewPCG(1, 1))}
}

// see shows a window with what the hog uses and adds to the delay.
func (b *bench) see(hog, harm float64) []Action {
	b.n++
	load := 0.5 + 0.3*math.Sin(float64(b.n)/30)
	x := Window{Load: load}
	for i := range b.passes {
		x.Neighbours = append(x.Neighbours, Neighbour{Name: fmt.Sprintf("%d-%d", b.n, i), Use: 1})
	}
	x.Neighbours = append(x.Neighbours, Neighbour{Name: "hog", Use: hog}, Neighbour{Name: "innocent", Use: 2 + math.Mod(float64(b.n/17), 3)}, Neighbour{Name: "unknown", Use: math.NaN()}, Neighbour{Name: "steady", Use: 20})
	x.Signals[Delay] = 4*load*load*(1+0.02*b.random.NormFloat64()) + harm
	x.Signals[Pressure] = math.NaN()
	x.Signals[Indicator], x.Signals[Cycles] = math.NaN(), math.NaN()
	return b.watch.See(&x, start.Add(time.Duration(b.n)*10*time.Second))
}

func (b *bench) quiet(t *testing.T, windows int) {
	t.Helper()
	for range windows {
		if a := b.see(0, 0); len(a) > 0 {
			t.Fatalf("window %d: %+v", b.n, a)
		}
	}
}

func kinds(actions []Action) (list []Kind) {
	for _, a := range actions {
		list = append(list, a.Kind)
	}
	return list
}

// TestLadder: load alone raises no alarm; a hog is named in the third window, narrowed, evicted and kept apart; calm takes it back.
func TestLadder(t *testing.T) {
	b := newBench()
	b.quiet(t, 400)
	for i, want := range [][]Kind{nil, nil, {StopGrowth, Narrow}, nil, nil, {Evict, KeepApart}, nil, nil, nil} {
		got := b.see(10, 3)
		if !slices.Equal(kinds(got), want) {
			t.Fatalf("harm %d: %+v, want %v", i+1, got, want)
		}
		for _, a := range got {
			if a.Reason == "" || a.Kind != StopGrowth && a.Neighbour != "hog" || a.Kind == KeepApart && a.Until.Sub(start) < time.Hour {
				t.Errorf("%+v", a)
			}
		}
	}
	if alarm, who := b.watch.Alarm(); !alarm || who != "hog" {
		t.Errorf("alarm %t, %q", alarm, who)
	}
	for i := range DefaultParams().Quiet {
		got := b.see(0, 0)
		if last := i == DefaultParams().Quiet-1; last != (len(got) == 1 && got[0].Kind == Release) {
			t.Fatalf("calm %d: %+v", i+1, got)
		}
	}
	b.quiet(t, 100)
}

// TestShortHarm: two windows are not enough, and a calm one begins the count anew.
func TestShortHarm(t *testing.T) {
	b := newBench()
	b.quiet(t, 400)
	for range 5 {
		for range 2 {
			if a := b.see(10, 3); len(a) > 0 {
				t.Fatalf("%+v", a)
			}
		}
		b.quiet(t, 1)
	}
}

// TestNobody: harm that goes with no neighbour stops growth, and names none.
func TestNobody(t *testing.T) {
	b := newBench()
	b.quiet(t, 400)
	var all []Kind
	for range 20 {
		all = append(all, kinds(b.see(0, 3))...)
	}
	if !slices.Equal(all, []Kind{StopGrowth}) {
		t.Errorf("%v", all)
	}
}

// Where more pods have come and gone than are remembered, a hog that comes is seen all the same.
func TestHogAmongPassingPods(t *testing.T) {
	b := newBench()
	b.quiet(t, 400)
	b.passes = 20
	b.quiet(t, 40)
	for range 2 {
		b.see(10, 3)
	}
	if got := b.see(10, 3); !slices.Equal(kinds(got), []Kind{StopGrowth, Narrow}) || got[1].Neighbour != "hog" {
		t.Errorf("%+v", got)
	}
}

// TestBeyondKnownLoad: a service that is slowed uses more CPU than it ever did. Its indicator, and the cycles that its instructions take, are compared with what they were at less; its delay
// is not. Cycles of 0 were not counted, and say nothing.
func TestBeyondKnownLoad(t *testing.T) {
	for _, c := range []struct {
		indicator, cycles, delay float64
		want                     int
	}{{2, 1, 0, 1}, {1, 2, 0, 1}, {1, 0, 0, 0}, {math.NaN(), 0, 9, 0}, {1, 1, 9, 0}, {1, 1, 0, 0}} {
		p := DefaultParams()
		w := NewWatch(&p)
		see := func(load, delay, indicator, cycles float64) int {
			return len(w.See(&Window{Load: load, Signals: [signals]float64{delay, math.NaN(), indicator, cycles}}, start))
		}
		for range 100 {
			if see(0.35, 0.1, 1, 1) > 0 {
				t.Fatal("an alarm without harm")
			}
		}
		got := 0
		for range 5 {
			got += see(0.85, c.delay, c.indicator, c.cycles)
		}
		if got != c.want {
			t.Errorf("%+v: %d actions", c, got)
		}
	}
}

// TestZeroCyclesAreUnknown: a counter that says 0 did not count. Learned as usual, it would make every window in which it counts harm.
func TestZeroCyclesAreUnknown(t *testing.T) {
	p := DefaultParams()
	w := NewWatch(&p)
	for range 100 {
		w.See(&Window{Load: 0.35, Signals: [signals]float64{math.NaN(), math.NaN(), math.NaN(), 0}}, start)
	}
	if w.Learned(0.35) {
		t.Error("cycles of 0 are taken for known")
	}
	for range 10 {
		if a := w.See(&Window{Load: 0.35, Signals: [signals]float64{math.NaN(), math.NaN(), math.NaN(), 1.5}}, start); len(a) > 0 {
			t.Fatalf("%+v", a)
		}
	}
}

// TestBaselineKeeps: harm that lasts does not become usual.
func TestBaselineKeeps(t *testing.T) {
	b := newBench()
	b.quiet(t, 400)
	for range 500 {
		b.see(10, 3)
	}
	if alarm, who := b.watch.Alarm(); !alarm || who != "hog" {
		t.Errorf("after long harm: alarm %t, %q", alarm, who)
	}
}

// TestHolds: odd windows never panic, act without a name, or act twice for different reasons on two equal watches; memory is bounded.
func TestHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams()
		a, b := NewWatch(&p), NewWatch(&p)
		odd := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 0, 0.3, 1, 5, 1e9})
		for i := range rapid.IntRange(1, 200).Draw(t, "windows") {
			x := Window{Load: odd.Draw(t, "load"), Probed: rapid.Bool().Draw(t, "probed"), Waited: odd.Draw(t, "waited")}
			for s := range x.Signals {
				x.Signals[s] = odd.Draw(t, "signal")
			}
			for range rapid.IntRange(0, 3).Draw(t, "neighbours") {
				x.Neighbours = append(x.Neighbours, Neighbour{Name: fmt.Sprint(rapid.IntRange(0, 2000).Draw(t, "name")), Use: odd.Draw(t, "use"), Bandwidth: odd.Draw(t, "bandwidth"), Ahead: odd.Draw(t, "ahead")})
			}
			now := start.Add(time.Duration(i) * time.Minute)
			got, again := a.See(&x, now), b.See(&x, now)
			if fmt.Sprint(got) != fmt.Sprint(again) {
				t.Fatalf("%v, and %v", got, again)
			}
			for _, act := range got {
				if act.Reason == "" || (act.Kind == Narrow || act.Kind == Evict || act.Kind == KeepApart) && act.Neighbour == "" {
					t.Fatalf("%+v", act)
				}
			}
		}
		if len(a.residuals) > p.Kept || len(a.past) > maxNeighbours {
			t.Fatalf("%d windows, %d neighbours are kept", len(a.residuals), len(a.past))
		}
	})
}

func TestParamsAreChecked(t *testing.T) {
	for i, spoil := range []func(*Params){
		func(p *Params) { p.Bins = 0 }, func(p *Params) { p.Windows = 2 }, func(p *Params) { p.Correlation = 1.1 }, func(p *Params) { p.Floor[0] = -1 },
		func(p *Params) { p.Patience = 0 }, func(p *Params) { p.Kept = maxKept + 1 }, func(p *Params) { p.Enough = 1 },
	} {
		p := DefaultParams()
		spoil(&p)
		if err := p.Validate(); err == nil {
			t.Errorf("spoiled parameters %d are accepted", i)
		}
	}
}
