package forecast

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const short = 5 * time.Minute

// spikes is a load of 10 with spikes of two steps, of different heights up to 60, at times that nobody can know. It begins anew with step 0.
func spikes() func(int) float64 {
	var random *rand.Rand
	until, height := 0, 0.0
	return func(i int) float64 {
		if i == 0 {
			random, until = rand.New(rand.NewPCG(1, 1)), 0
		}
		if i >= until && random.IntN(8) == 0 {
			until, height = i+2, 50+float64(random.IntN(11))
		}
		if i < until {
			return height
		}
		return 10
	}
}

// told is a series of so many steps of five minutes.
func told(p *Params, steps int, load func(int) float64) *Series {
	s := NewSeries(p)
	for i := range steps {
		s.See(load(i), start.Add(time.Duration(i)*short))
	}
	return s
}

// TestRises: each rule by itself, on loads without a period.
func TestRises(t *testing.T) {
	for name, c := range map[string]struct {
		quantile float64
		steps    int
		load     func(int) float64
		why      string // "": it is trusted
	}{
		"spikes":                        {0.9, 5 * 288, spikes(), ""},
		"what is rare is left out":      {0.5, 5 * 288, spikes(), "nor by its rises"},
		"it has to be known for a day":  {0.9, 288, spikes(), "less than two periods"},
		"and for half a day before":     {0.9, 288 + 100, spikes(), "less than two periods"},
		"which is enough":               {0.9, 288 + 160, spikes(), ""},
		"nothing rises":                 {0.9, 5 * 288, func(int) float64 { return 10 }, "nor by its rises"},
		"it rises no more since a day":  {0.9, 5 * 288, before(4*288, spikes()), "nor by its rises"},
		"it rises since a day only":     {0.9, 5 * 288, after(4*288, spikes()), "nor by its rises"},
		"nothing was known for a day":   {0.9, 5 * 288, unknown(3*288, 4*288+200, spikes()), "less than"},
		"what it is now is not known":   {0.9, 5 * 288, unknown(5*288-1, 5*288, spikes()), ""}, // it is of the last step that is known
		"nothing was known for an hour": {0.9, 5 * 288, unknown(5*288-20, 5*288-8, spikes()), ""},
		"each lead is known in part":    {0.9, 5 * 288, everyOther(spikes()), "less than"},
	} {
		p := DefaultParams(short, 2*short)
		p.Periods, p.Quantile, p.Rises = []time.Duration{7 * 24 * time.Hour}, c.quantile, true
		r := told(&p, c.steps, c.load).Predict()
		switch {
		case c.why == "" && (!r.Trusted || r.High < 50 || r.High > 60 || r.Middle > r.High || !strings.Contains(r.Reason, "no period")):
			t.Errorf("%s: %+v", name, r)
		case c.why != "" && (r.Trusted || !strings.Contains(r.Reason, c.why)):
			t.Errorf("%s: %+v, want that it is not trusted: %s", name, r, c.why)
		}
		if p.Rises = false; told(&p, c.steps, c.load).Predict().Trusted {
			t.Errorf("%s: it is trusted without rises", name)
		}
	}
}

func before(at int, load func(int) float64) func(int) float64 {
	return func(i int) float64 {
		if v := load(i); i < at {
			return v
		}
		return 10
	}
}

func after(at int, load func(int) float64) func(int) float64 {
	return func(i int) float64 {
		if v := load(i); i >= at {
			return v
		}
		return 10
	}
}

func unknown(from, to int, load func(int) float64) func(int) float64 {
	return func(i int) float64 {
		if v := load(i); i < from || i >= to {
			return v
		}
		return math.NaN()
	}
}

func everyOther(load func(int) float64) func(int) float64 {
	return func(i int) float64 {
		if v := load(i); i%2 == 0 {
			return v
		}
		return math.NaN()
	}
}

// TestUnknownIsNotJudged: whatever steps are not known, each rise that is told is the one that really was, and each forecast that counts as checked was compared with the whole of its lead.
func TestUnknownIsNotJudged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams(30*time.Minute, time.Duration(rapid.IntRange(1, 5).Draw(t, "lead"))*30*time.Minute)
		p.Periods, p.Errors = []time.Duration{6 * time.Hour}, maxErrors
		all, some := NewSeries(&p), NewSeries(&p)
		whole := 0 // leads of forecasts that are known from beginning to end
		since := 0
		for i := range rapid.IntRange(0, 100).Draw(t, "steps") {
			load, at := rapid.Float64Range(0, 100).Draw(t, "load"), start.Add(time.Duration(i)*30*time.Minute)
			all.See(load, at)
			if since++; i > 0 && rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
				since = 0
				continue
			}
			if some.See(load, at); since > some.lead() {
				whole++
			}
		}
		for i := range len(some.loads) - some.lead() {
			if rise, known := some.rise(i); known {
				if want, _ := all.rise(i); rise != want {
					t.Fatalf("the load of step %d rises by %g, not by %g", i, want, rise)
				}
			}
		}
		if n := len(some.periods[0].errors); n > whole {
			t.Fatalf("%d forecasts are checked, and %d leads are known", n, whole)
		}
	})
}

// TestUnknownPhase: a lead that reaches into a phase of which nothing was ever known is not foretold. A shorter one is.
func TestUnknownPhase(t *testing.T) {
	for lead, want := range map[int]bool{1: true, 2: false, 3: false} {
		p := DefaultParams(step, time.Duration(lead)*step)
		p.Periods = []time.Duration{6 * time.Hour}
		s := NewSeries(&p)
		for i := range 4 * 12 {
			if i%12 != 1 {
				s.See(100, start.Add(time.Duration(i)*step))
			}
		}
		if _, known := s.ahead(&s.periods[0]); known != want {
			t.Errorf("%d steps ahead: %v", lead, known)
		}
	}
}

// TestPeriodsComeFirst: a load whose period is trusted is forecast by it.
func TestPeriodsComeFirst(t *testing.T) {
	p := DefaultParams(step, step)
	p.Rises = true
	s := NewSeries(&p)
	feed(s, 6, tide)
	if r := s.Predict(); !r.Trusted || r.Period != 24*time.Hour {
		t.Errorf("%+v", r)
	}
}

// TestRisesAreBounded: whatever the loads, what is trusted is at least the load now, and at most what the load was in the time that is looked at; and it is a function of the loads, also after a checkpoint.
func TestRisesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams(30*time.Minute, time.Hour)
		p.Periods, p.Errors, p.Rises = []time.Duration{24 * time.Hour}, 200, true
		s, at, most := NewSeries(&p), start, 0.0
		quiet := rapid.Float64Range(0, 100).Draw(t, "quiet")
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			load := quiet
			if rapid.IntRange(0, 4).Draw(t, "rises") == 0 {
				load += rapid.Float64Range(0, 1000).Draw(t, "by")
			}
			at = at.Add(30 * time.Minute * time.Duration(rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 2, 20}).Draw(t, "gap")))
			load, most = single(load), max(most, single(load))
			s.See(load, at)
		}
		r := s.Predict()
		if r.Trusted && (r.High < r.Middle && r.Period == 0 || r.Period == 0 && r.High > most) {
			t.Fatalf("%+v, and the load was %g at most", r, most)
		}
		if len(s.loads) == 0 {
			return
		}
		data, err := s.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Restore(&p, data, at)
		if err != nil {
			t.Fatal(err)
		}
		if x := again.Predict(); x != r {
			t.Fatalf("%+v, from a checkpoint %+v", r, x)
		}
	})
}
