package interference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// together is a service beside two neighbours that come at once: hog, which fills the memory bus, and pinned, which uses more CPU and harms nobody. A third has always been there.
type together struct {
	params Params
	// What they take when they are there, in bytes per second; NaN is not known. steady is what the third takes all the time.
	hog, pinned, steady float64
	// before is what is said of the hog before it comes. use is that of the third, load that of the service while they are there, and crowd how many more come then.
	before, use, load float64
	crowd             int
	// restless: the third takes nothing in every other calm window. waited: threads waited in one window, long before.
	restless, waited bool
	// The signals when they are there, and when they are not.
	harmed, calm [signals]float64
}

func newTogether() *together {
	none := math.NaN()
	return &together{
		params: DefaultParams(), hog: 40e9, pinned: 1e9, steady: 10e9, use: 5, load: 0.35,
		calm: [signals]float64{0.1, 0.01, none, 1.2}, harmed: [signals]float64{0.1, 0.01, none, 2.4},
	}
}

// byIndicator has the service say itself that it is slow, without the processor's counters.
func (s *together) byIndicator() {
	for _, of := range []*[signals]float64{&s.calm, &s.harmed} {
		of[Indicator], of[Cycles] = of[Cycles], math.NaN()
	}
}

// named is who is narrowed, and why.
func (s *together) named() (who, why string) {
	w, random := NewWatch(&s.params), rand.New(rand.NewPCG(2, 2))
	now := time.Unix(0, 0)
	near := func(x float64) float64 { return x * (1 + 0.01*random.NormFloat64()) }
	for i := range 90 {
		x := Window{Load: 0.35, Signals: s.calm, Neighbours: []Neighbour{{Name: "steady", Use: near(s.use), Bandwidth: near(s.steady)}}}
		if there := i >= 80; there {
			x.Signals, x.Load = s.harmed, s.load
			x.Neighbours = append(x.Neighbours, Neighbour{Name: "hog", Use: near(8), Bandwidth: near(s.hog)}, Neighbour{Name: "pinned", Use: near(12), Bandwidth: near(s.pinned)})
			for n := range s.crowd {
				x.Neighbours = append(x.Neighbours, Neighbour{Name: fmt.Sprint("small-", n), Use: 0.001})
			}
		} else if !(s.before == 0) {
			x.Neighbours = append(x.Neighbours, Neighbour{Name: "hog", Use: 0.1, Bandwidth: s.before})
		}
		if s.restless && i < 80 && i%2 == 0 {
			x.Neighbours[0].Bandwidth = 0
		}
		if s.waited && i == 60 {
			x.Signals[Delay] = 3
		}
		for k := range x.Signals {
			x.Signals[k] = near(x.Signals[k])
		}
		now = now.Add(Length)
		for _, a := range w.See(&x, now) {
			if a.Kind == Narrow {
				return a.Neighbour, a.Reason
			}
		}
	}
	return "", ""
}

// Where a service gets slower and waits for nobody, the neighbour whose memory bandwidth rose is named, and not the one that uses more CPU. Where bandwidth says nothing, or may say it of the
// wrong one, it is whose use rose most, as without it.
func TestNamedByBandwidth(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	const byUse = "the use of pinned goes with it"
	for name, c := range map[string]struct {
		spoil func(s *together)
		want  string
		says  string
	}{
		"it rose":                             {func(*together) {}, "hog", "the memory bandwidth of hog goes with it, from 0.0 to 40."},
		"by an indicator":                     {func(s *together) { s.byIndicator() }, "hog", "the memory bandwidth of hog"},
		"it was there before":                 {func(s *together) { s.before = 2e9 }, "hog", "from 2.0 to 40."},
		"threads waited once":                 {func(s *together) { s.waited = true }, "hog", "the memory bandwidth of hog"},
		"another's is endless":                {func(s *together) { s.steady = math.Inf(1) }, "pinned", byUse},
		"a large one's is unknown":            {func(s *together) { s.steady = none }, "pinned", byUse},
		"a small one's is unknown":            {func(s *together) { s.steady, s.use = none, 0.5 }, "hog", "the memory bandwidth of hog"},
		"and what it uses is not":             {func(s *together) { s.steady, s.use = none, none }, "pinned", byUse},
		"waiting is not known":                {func(s *together) { s.byIndicator(); s.harmed[Delay] = none }, "pinned", byUse},
		"nor was it before":                   {func(s *together) { s.byIndicator(); s.harmed[Delay], s.calm[Delay] = none, none }, "pinned", byUse},
		"pressure is not known":               {func(s *together) { s.byIndicator(); s.harmed[Pressure], s.calm[Pressure] = none, none }, "hog", "the memory bandwidth of hog"},
		"at a greater load":                   {func(s *together) { s.byIndicator(); s.load = 0.55 }, "hog", "the memory bandwidth of hog"},
		"it waits more there":                 {func(s *together) { s.byIndicator(); s.load, s.harmed[Delay] = 0.55, 3 }, "pinned", byUse},
		"not all found room":                  {func(s *together) { s.crowd = maxNeighbours }, "pinned", byUse},
		"another's rose by chance":            {func(s *together) { s.restless, s.steady = true, 200e9 }, "pinned", byUse},
		"none is known":                       {func(s *together) { s.hog, s.pinned, s.steady = none, none, none }, "pinned", byUse},
		"the hog's is not known":              {func(s *together) { s.hog, s.pinned = none, 20e9 }, "pinned", byUse},
		"before it was not known":             {func(s *together) { s.before = none }, "pinned", byUse},
		"it is endless":                       {func(s *together) { s.hog = math.Inf(1) }, "pinned", byUse},
		"it rose a little":                    {func(s *together) { s.hog, s.pinned, s.steady = 0.9e9, 0, 1e6 }, "pinned", byUse},
		"others take much more":               {func(s *together) { s.steady = 200e9 }, "pinned", byUse},
		"it names nobody":                     {func(s *together) { s.params.Rise = 0 }, "pinned", byUse},
		"threads wait":                        {func(s *together) { s.byIndicator(); s.harmed[Delay] = 3 }, "pinned", byUse},
		"there is pressure":                   {func(s *together) { s.byIndicator(); s.harmed[Pressure] = 0.9 }, "pinned", byUse},
		"slow instructions, and threads wait": {func(s *together) { s.harmed[Delay], s.harmed[Pressure] = 3, 0.9 }, "hog", "the memory bandwidth of hog"},
		"slow instructions, no more known":    {func(s *together) { s.harmed[Delay], s.harmed[Pressure] = none, none }, "hog", "the memory bandwidth of hog"},
		"threads wait and that's it":          {func(s *together) { s.harmed[Delay], s.harmed[Cycles] = 3, 1.2 }, "pinned", byUse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTogether()
			c.spoil(s)
			if who, why := s.named(); who != c.want || !strings.Contains(why, c.says) {
				t.Errorf("%q: %s; want %q: %s", who, why, c.want, c.says)
			}
		})
	}
}

// A Book brings the bandwidth that is read of a pod to the watches of its neighbours.
func TestBookSeesBandwidth(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		rules := DefaultRules()
		b := NewBook(&rules)
		now := time.Unix(0, 0)
		var last *Decision
		for i := range 94 {
			harm := i >= 90
			pod := func(id string, use, bandwidth float64) Reading {
				if !harm && id != "web" {
					use, bandwidth = 0, 0
				}
				if !known {
					bandwidth = math.NaN()
				}
				return Reading{ID: id, Name: id, Use: use, Bandwidth: bandwidth, Delay: 0.1, Pressure: math.NaN(), Indicator: math.NaN(), Cycles: math.NaN(), Limitable: true}
			}
			web := pod("web", 1, 1e9)
			web.Watched, web.Request, web.Cycles = true, 2, 1.2+0.01*float64(i%3)
			if harm {
				web.Cycles = 3
			}
			now = now.Add(Length)
			if d := b.Step(now, []Reading{web, pod("hog", 4, 30e9), pod("pinned", 9, 1e8)}); d != nil {
				last = d
			}
		}
		want := map[bool]string{true: "hog", false: "pinned"}[known]
		if len(last.Findings) != 1 || last.Findings[0].Culprit != want {
			t.Errorf("known %t: %+v", known, last.Findings)
		}
	}
}
