package target

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// service draws a service whose latency rises steeply with the run delay above 0.07, and beside it measures that it has nothing to do with.
func service(rows int, seed uint64) *Series {
	random := rand.New(rand.NewPCG(seed, 7))
	s := &Series{Measures: map[string][]float64{}}
	for range rows {
		delay := random.Float64() * 0.15
		latency := 0.05 + 0.3*delay + 0.005*random.Float64()
		if delay > 0.07 {
			latency += 20 * (delay - 0.07) * (delay - 0.07) * 10
		}
		s.Indicator = append(s.Indicator, latency)
		s.Measures["RunDelay"] = append(s.Measures["RunDelay"], delay)
		s.Measures["CPI"] = append(s.Measures["CPI"], 1+random.Float64())
		s.Measures["CPUPressure"] = append(s.Measures["CPUPressure"], math.Min(1, delay*3+0.4*random.Float64()))
	}
	return s
}

func params(limit float64) *Params {
	p := Defaults()
	p.Limit = limit
	return &p
}

// TestProposes: the measure that makes the latency is found among others, and its knee.
func TestProposes(t *testing.T) {
	p, err := Propose(service(2000, 1), params(0.081))
	if err != nil {
		t.Fatal(err)
	}
	if p.Measure != "RunDelay" || p.Target < 0.07 || p.Target > 0.09 {
		t.Errorf("%s %g is proposed, want RunDelay between 0.07 and 0.09: %+v", p.Measure, p.Target, p.Evidence)
	}
	e := p.Evidence[0]
	if e.Below < 0.99 || e.Above > 0.1 || !strings.Contains(e.Why, "rank correlation") {
		t.Errorf("the evidence is %+v", e)
	}
	for _, other := range p.Evidence[1:] {
		if other.Measure == "CPI" && other.Target != 0 {
			t.Errorf("CPI has nothing to do with it, and has the target %g: %s", other.Target, other.Why)
		}
	}
}

// TestSteered: what nobody can steer by is evidence, and the next measure is proposed.
func TestSteered(t *testing.T) {
	s := service(2000, 1)
	s.Steered = []string{"CPUPressure"}
	p, err := Propose(s, params(0.081))
	if err != nil {
		t.Fatal(err)
	}
	if p.Measure != "CPUPressure" || p.Target <= 0 {
		t.Errorf("%s %g is proposed: %+v", p.Measure, p.Target, p.Evidence)
	}
	for _, e := range p.Evidence {
		if e.Measure == "RunDelay" && (e.Target != 0 || !strings.HasPrefix(e.Why, "no agent steers by it")) {
			t.Errorf("%+v", e)
		}
	}
}

// TestProposesNothing: without evidence nothing is proposed, and why is told.
func TestProposesNothing(t *testing.T) {
	half := service(1000, 2) // it goes with the run delay in the first half alone
	random := rand.New(rand.NewPCG(3, 3))
	for i := 500; i < 1000; i++ {
		half.Indicator[i] = 0.05 + 0.05*random.Float64()
	}
	unknown := service(1000, 4)
	for i := range unknown.Indicator {
		if i%10 > 0 {
			unknown.Indicator[i] = math.NaN()
		}
	}
	for name, x := range map[string]struct {
		s     *Series
		limit float64
		why   string
	}{
		"one half":        {half, 0.081, "does not go with it"},
		"not known":       {unknown, 0.081, "rows are known"},
		"never harmed":    {service(1000, 5), 100, "every value that was seen"},
		"always harmed":   {service(1000, 6), 0.001, "no value of it"},
		"nothing moves":   {&Series{Indicator: make([]float64, 300), Measures: map[string][]float64{"CPI": make([]float64, 300)}}, 1, "does not go with it"},
		"only without it": {idle(), 0.5, "where the measure is 0"},
	} {
		p, err := Propose(x.s, params(x.limit))
		if err != nil {
			t.Fatal(err)
		}
		if p.Measure != "" || p.Target != 0 {
			t.Errorf("%s: %s %g is proposed", name, p.Measure, p.Target)
		}
		if why := p.Evidence[0].Why; !strings.Contains(why, x.why) {
			t.Errorf("%s: %q, want %q", name, why, x.why)
		}
	}
}

// idle is a service that is well only while nothing waits.
func idle() *Series {
	s := &Series{Measures: map[string][]float64{}}
	for i := range 400 {
		delay := float64(max(i%40-19, 0)) / 100
		s.Indicator = append(s.Indicator, delay*100)
		s.Measures["RunDelay"] = append(s.Measures["RunDelay"], delay)
	}
	return s
}

// TestRanksAlone: what is done to values in a way that keeps their order changes no correlation, and the opposite order turns it around.
func TestRanksAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows, bent, turned []row
		for range rapid.IntRange(2, 50).Draw(t, "rows") {
			a, b := float64(rapid.IntRange(-9, 9).Draw(t, "a")), float64(rapid.IntRange(-9, 9).Draw(t, "b"))
			rows, bent, turned = append(rows, row{a, b}), append(bent, row{a*a*a + a, math.Exp(b)}), append(turned, row{-a, b})
		}
		c := correlation(rows)
		if c < -1-1e-9 || c > 1+1e-9 || math.Abs(c-correlation(bent)) > 1e-9 || math.Abs(c+correlation(turned)) > 1e-9 {
			t.Fatalf("correlation %g, bent %g, turned %g", c, correlation(bent), correlation(turned))
		}
	})
}

// TestRefuses: bad input names the field.
func TestRefuses(t *testing.T) {
	s := service(300, 1)
	for want, p := range map[string]Params{
		"limit": {Within: 0.9, Correlation: 0.5, Rows: 100}, "within": {Limit: 1, Correlation: 0.5, Rows: 100},
		"correlation": {Limit: 1, Within: 0.9, Rows: 100}, "rows": {Limit: 1, Within: 0.9, Correlation: 0.5},
	} {
		if _, err := Propose(s, &p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", p, err, want)
		}
	}
	s.Measures["CPI"] = s.Measures["CPI"][1:]
	if _, err := Propose(s, params(1)); err == nil || !strings.Contains(err.Error(), "CPI") {
		t.Errorf("rows of other lengths: %v", err)
	}
	if _, err := Propose(&Series{}, params(1)); err == nil {
		t.Error("no measure is no error")
	}
}
