package interference

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// harmed is a Watch that has learned, whose service is harmed by a hog and waits: delay and pressure say so. Its culprit is named.
func harmed(t *testing.T, p *Params) (w *Watch, see func(load, delay, pressure float64) []Action) {
	t.Helper()
	w = NewWatch(p)
	now := start
	none := math.NaN()
	see = func(load, delay, pressure float64) []Action {
		now = now.Add(Length)
		hog := 0.
		if delay > 1 {
			hog = 8
		}
		return w.See(&Window{Load: load, Signals: [signals]float64{delay, pressure, none, none}, Neighbours: []Neighbour{{Name: "hog", Use: hog}}}, now)
	}
	for range 40 {
		see(0.35, 0.1, 0.01)
	}
	for range 3 {
		see(0.35, 3, 0.01)
	}
	if alarm, who := w.Alarm(); !alarm || who != "hog" {
		t.Fatalf("alarm %t, %q", alarm, who)
	}
	return w, see
}

// What harm was seen in is not known for a while: that is not calm, and what is done is not taken back sooner. It is in the end, for nobody knows what it is good for.
func TestUnknownIsNotCalm(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	for name, unknown := range map[string][3]float64{
		"the signal":                {0.35, none, 0.01},
		"all signals":               {0.35, none, none},
		"the load":                  {none, 0.1, 0.01},
		"what is usual at the load": {0.95, 0.1, 0.01},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := DefaultParams()
			p.Quiet = 5
			w, see := harmed(t, &p)
			for i := range blindFor - 1 {
				if got := see(unknown[0], unknown[1], unknown[2]); len(got) > 0 || w.Calm() || w.Harmed() {
					t.Fatalf("window %d: %+v, calm %t, harmed %t", i+1, got, w.Calm(), w.Harmed())
				}
			}
			if got := see(unknown[0], unknown[1], unknown[2]); len(got) != 1 || got[0].Kind != Release {
				t.Errorf("after %d windows: %+v", blindFor, got)
			}
			_, see = harmed(t, &p)
			for range 20 {
				see(unknown[0], unknown[1], unknown[2])
			}
			for i := range p.Quiet {
				got := see(0.35, 0.1, 0.01)
				if last := i == p.Quiet-1; last != (len(got) == 1 && got[0].Kind == Release) {
					t.Fatalf("calm %d: %+v", i+1, got)
				}
			}
		})
	}
}

// A look at the run queues of which a part is not known says nothing: the rest of it would seem to be all.
func TestUnknownWaitingNamesNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other float64
		want  string
	}{"known": {1, "hog"}, "unknown": {math.NaN(), ""}, "endless": {math.Inf(1), ""}, "negative": {-1, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := DefaultRules()
			b, now := NewBook(&rules), start
			var last *Decision
			for i := range 45 {
				none := math.NaN()
				web := Reading{ID: "web", Watched: true, Request: 2, Use: 1, Delay: 0.1, Pressure: none, Indicator: none, Cycles: none}
				if i >= 40 {
					web.Delay, web.Ahead = 3, map[string]float64{"hog": 2, "other": c.other}
				}
				now = now.Add(Length)
				if d := b.Step(now, []Reading{web, {ID: "hog", Use: 3}, {ID: "other", Use: 3}}); d != nil {
					last = d
				}
			}
			if len(last.Findings) != 1 || last.Findings[0].Culprit != c.want {
				t.Errorf("%+v", last.Findings)
			}
		})
	}
}

// TestBandwidthNamesWhateverIsUnknown: who is named by memory bandwidth while that of others, or some windows of it, are not known, would be named if it were, whatever it was: what is not known is
// never taken for little.
func TestBandwidthNamesWhateverIsUnknown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		uses := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.01, 0.1, 1, 8}), 1, 4).Draw(t, "uses")
		p := DefaultParams()
		guess, truth := NewWatch(&p), NewWatch(&p)
		now := start
		var most []float64
		for _, use := range uses { // a CPU moves no more than that
			most = append(most, use*mostPerCPU*rapid.Float64Range(0, 1).Draw(t, "share"))
		}
		hog := rapid.SampledFrom([]float64{0.5e9, 2e9, 10e9, 100e9}).Draw(t, "hog")
		for i := range 50 {
			x := Window{Load: 0.35, Signals: [signals]float64{0.1, 0.01, math.NaN(), 1.2}}
			x.Neighbours = []Neighbour{{Name: "hog", Use: 0.1 + 0.01*float64(i%2)}}
			if i >= 40 {
				x.Signals[Cycles], x.Neighbours[0].Bandwidth = 2.4, hog
			}
			known := x
			known.Neighbours = append([]Neighbour{}, x.Neighbours...)
			for k, use := range uses {
				n := Neighbour{Name: fmt.Sprint(k), Use: use, Bandwidth: most[k]}
				known.Neighbours = append(known.Neighbours, n)
				if rapid.IntRange(0, 3).Draw(t, "seen") > 0 {
					n.Bandwidth = math.NaN()
				}
				x.Neighbours = append(x.Neighbours, n)
			}
			now = now.Add(time.Second)
			guess.See(&x, now)
			truth.See(&known, now)
		}
		if name, evidence := guess.loads(); name != "" {
			if really, _ := truth.loads(); really != name {
				t.Fatalf("%q is named (%+v); if all were known: %q", name, evidence, really)
			}
		}
	})
}
