package forecast

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

const step = 30 * time.Minute

// feed tells a series so many days of a load.
func feed(s *Series, days int, load func(i int) float64) {
	for i := range days * 48 {
		s.See(load(i), start.Add(time.Duration(i)*step))
	}
}

func tide(i int) float64 { return 100 + 80*math.Sin(2*math.Pi*float64(i%48)/48) }

func TestTideIsTrusted(t *testing.T) {
	p := DefaultParams(step, step)
	s := NewSeries(&p)
	feed(s, 6, tide)
	r := s.Predict()
	want := max(tide(6*48), tide(6*48+1))
	if !r.Trusted || math.Abs(r.Middle-want) > 15 || r.High < r.Middle || r.Period != 24*time.Hour || !strings.Contains(r.Reason, "same as now") {
		t.Errorf("%+v, want about %g", r, want)
	}
}

// TestWeek: weekends need the period of a week.
func TestWeek(t *testing.T) {
	p := DefaultParams(step, step)
	s := NewSeries(&p)
	feed(s, 35, func(i int) float64 {
		if i/48%7 >= 5 {
			return 10 + tide(i)/20
		}
		return tide(i)
	})
	if r := s.Predict(); !r.Trusted || r.Period != 7*24*time.Hour {
		t.Errorf("%+v", r)
	}
}

// TestChanceIsNotTrusted: a walk without a period is best foretold by what it is now. It is trusted again once a tide has been seen for long enough, and no
// longer when the tide ends.
func TestChanceIsNotTrusted(t *testing.T) {
	p := DefaultParams(step, step)
	s := NewSeries(&p)
	random := rand.New(rand.NewPCG(1, 1))
	level := 100.0
	walk := func(int) float64 {
		level = max(level+random.NormFloat64()*3, 1)
		return level
	}
	feed(s, 20, walk)
	if r := s.Predict(); r.Trusted || !strings.HasPrefix(r.Reason, "not used") {
		t.Errorf("chance: %+v", r)
	}
	at := start.Add(20 * 24 * time.Hour)
	for i := range 15 * 48 {
		s.See(tide(i), at.Add(time.Duration(i)*step))
	}
	if r := s.Predict(); !r.Trusted {
		t.Errorf("a tide after chance: %+v", r)
	}
	at = at.Add(15 * 24 * time.Hour)
	for i := range 10 * 48 {
		s.See(walk(i), at.Add(time.Duration(i)*step))
	}
	if r := s.Predict(); r.Trusted {
		t.Errorf("chance after a tide: %+v", r)
	}
}

// TestLevelFollows: a day with half more load than usual is foretold half higher.
func TestLevelFollows(t *testing.T) {
	p := DefaultParams(step, step)
	s := NewSeries(&p)
	feed(s, 8, func(i int) float64 {
		if i >= 7*48 {
			return 1.5 * tide(i)
		}
		return tide(i)
	})
	if r := s.Predict(); math.Abs(r.Middle/tide(8*48+1)-1.5) > 0.2 {
		t.Errorf("%+v beside %g", r, tide(8*48+1))
	}
}

func TestUnknown(t *testing.T) {
	p := DefaultParams(step, step)
	s := NewSeries(&p)
	if r := s.Predict(); r.Trusted || r.Reason == "" {
		t.Errorf("nothing: %+v", r)
	}
	feed(s, 1, tide)
	if r := s.Predict(); r.Trusted {
		t.Errorf("one day: %+v", r)
	}
}

// TestBadLoads: what is no load changes nothing; a prediction is a function of the loads alone.
func TestBadLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams(step, time.Hour)
		a, b := NewSeries(&p), NewSeries(&p)
		at := start
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			at = at.Add(step * time.Duration(rapid.SampledFrom([]int{1, 1, 1, 1, 2, 30}).Draw(t, "gap")))
			load := rapid.Float64Range(0, 1e6).Draw(t, "load")
			a.See(load, at)
			b.See(load, at)
			if i%5 == 0 {
				b.See(math.NaN(), at.Add(step))
				b.See(-1, at.Add(step))
				b.See(math.Inf(1), at.Add(step))
				b.See(1e9, at.Add(-step))
				b.See(1e9, at)
			}
		}
		if x, y := a.Predict(), b.Predict(); x != y || !(x.Middle >= 0) || x.Trusted && !(x.High >= x.Middle) {
			t.Fatalf("%+v, with bad loads %+v", x, y)
		}
	})
}

// every begins each day at an hour of UTC.
type every struct{ hour int }

func (e every) Next(after time.Time) time.Time {
	at := time.Date(after.Year(), after.Month(), after.Day(), e.hour, 0, 0, 0, time.UTC)
	if !at.After(after) {
		at = at.AddDate(0, 0, 1)
	}
	return at
}

type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }

func TestPlanned(t *testing.T) {
	peaks := []Peak{{"lunch", every{12}, time.Hour, 500}, {"noon", every{12}, 2 * time.Hour, 300}, {"none", never{}, time.Hour, 1e6}}
	for _, c := range []struct {
		hour, minute int
		want         float64
	}{{11, 49, 0}, {11, 50, 500}, {12, 0, 500}, {12, 59, 500}, {13, 0, 300}, {13, 59, 300}, {14, 0, 0}} {
		now := time.Date(2026, time.March, 2, c.hour, c.minute, 0, 0, time.UTC)
		if got, _ := Planned(peaks, now, 10*time.Minute); got != c.want {
			t.Errorf("at %s: %g, want %g", now.Format("15:04"), got, c.want)
		}
	}
}

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		live    float64
		p       Prediction
		planned float64
		want    float64
		why     string
	}{
		{10, Prediction{High: 20}, 0, 10, "the live load"}, // not trusted
		{10, Prediction{High: 20, Trusted: true}, 0, 20, "the forecast"},
		{30, Prediction{High: 20, Trusted: true}, 0, 30, "the live load"}, // never less than the live load
		{10, Prediction{High: 20, Trusted: true}, 40, 40, "a planned peak"},
	} {
		if got, why := Wanted(c.live, &c.p, c.planned); got != c.want || why != c.why {
			t.Errorf("%+v: %g by %s", c, got, why)
		}
	}
}

func TestParamsAreChecked(t *testing.T) {
	good := DefaultParams(step, step)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(*Params){
		func(p *Params) { p.Step = 0 }, func(p *Params) { p.Periods = nil }, func(p *Params) { p.Periods = []time.Duration{25 * time.Minute} },
		func(p *Params) { p.Lead = 24 * time.Hour }, func(p *Params) { p.Quantile = 1 }, func(p *Params) { p.RatioMost = 0.5 },
		func(p *Params) { p.Better = 0 }, func(p *Params) { p.Kept = 1 }, func(p *Params) { p.HalfLife = 0 },
	} {
		p := DefaultParams(step, step)
		spoil(&p)
		if err := p.Validate(); err == nil {
			t.Errorf("spoiled parameters %d are accepted", i)
		}
	}
}

// TestNewPeriodWaits: a week of which two have just passed does not replace a day that has been checked for long.
func TestNewPeriodWaits(t *testing.T) {
	p := DefaultParams(step, step)
	s := NewSeries(&p)
	feed(s, 15, tide)
	if r := s.Predict(); !r.Trusted {
		t.Errorf("a day after two weeks: %+v", r)
	}
	s = NewSeries(&p)
	for i := range 14*48 + 20 {
		s.See(tide(i)*(1+0.1*math.Sin(float64(i/48%7))), start.Add(time.Duration(i)*step))
	}
	if r := s.Predict(); !r.Trusted || r.Period != 24*time.Hour {
		t.Errorf("ten hours after two weeks: %+v", r)
	}
}
