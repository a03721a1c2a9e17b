package advise

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

// TestSteering runs the stories in testdata/steering. Run with -rewrite to accept new output.
//
//	service [plant=latency|delay] [load=10] [cpus=24] [target=1.5] [gain=1] [noise=0] [lag=0] [scrape=10] [least=2] [most=96] [seed=1] [PARAM=VALUE …]
//	run FOR [load=N] [at=once]   the load goes to N by and by, or at once
//	missing | there              the indicator
//	bounds least=N most=N        from now on
//
// Loads and latencies are in CPUs and in service times.
func TestSteering(t *testing.T) {
	datadriven.Walk(t, "testdata/steering", func(t *testing.T, path string) {
		var l *loop
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "service":
				l = newLoop(1)
				serve(t, l, d)
				return ""
			case "bounds":
				serve(t, l, d)
				return ""
			case "missing", "there":
				l.blind = d.Cmd == "missing"
				return ""
			case "run":
				return told(t, l, d)
			}
			d.Fatalf(t, "unknown command")
			return ""
		})
	})
}

func serve(t *testing.T, l *loop, d *datadriven.TestData) {
	for _, a := range d.CmdArgs {
		v, err := strconv.ParseFloat(a.Vals[0], 64)
		switch a.Key {
		case "plant":
			l.plant.delayed, err = a.Vals[0] == "delay", nil
		case "load":
			l.plant.load = v
		case "cpus":
			l.has = v
		case "target":
			l.plant.target = v
		case "gain":
			l.plant.gain = v
		case "noise":
			l.plant.noise = v
		case "lag":
			l.plant.lag = int(v)
		case "scrape":
			l.plant.scrape = int(v)
		case "least":
			l.profile.LeastCPUs = int(v)
		case "most":
			l.profile.MostCPUs = int(v)
		default:
			p := Params{Profile: l.params}
			err = p.Set("profile."+a.Key, a.Vals[0])
			l.params = p.Profile
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func told(t *testing.T, l *loop, d *datadriven.TestData) string {
	long, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	load, from := l.plant.load, len(l.cpus)
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "load":
			if load, err = strconv.ParseFloat(a.Vals[0], 64); err != nil {
				t.Fatal(err)
			}
		case "at":
			l.plant.load = load
		}
	}
	l.run(int(long/time.Second), load)
	return l.plot(from) + l.outcome(from).String() + "\n"
}

// settling is a plant on which the loop must settle, at a load and after a step.
type settling struct {
	delayed           bool
	size, gain, noise float64
	lag               int
}

func settlings() (out []settling) {
	for _, delayed := range []bool{false, true} {
		for _, size := range []float64{2, 10, 40} {
			for _, gain := range []float64{0.5, 1, 2} {
				for _, lag := range []int{0, 10} {
					for _, noise := range []float64{0, 0.1} {
						out = append(out, settling{delayed, size, gain, noise, lag})
					}
				}
			}
		}
	}
	return out
}

// settle runs half an hour at a load, and half an hour after it has grown by half.
func (c settling) settle(by ProfileParams) (before, after outcome) {
	l := newLoop(uint64(c.size) + 1)
	l.params, l.profile.MostCPUs, l.has = by, 250, 2*c.size+2
	l.plant.delayed, l.plant.load, l.plant.gain, l.plant.lag, l.plant.noise = c.delayed, c.size, c.gain, c.lag, c.noise
	if c.delayed {
		l.plant.target = 0.1
	}
	l.run(1800, c.size)
	before = l.outcome(0)
	from := len(l.cpus)
	l.run(1, 1.5*c.size)
	l.run(1799, 1.5*c.size)
	return before, l.outcome(from)
}

// wrong says what an outcome is not to be.
func (c settling) wrong(o outcome, load float64) string {
	turns := 4
	if c.noise > 0 {
		turns = 8
	}
	switch {
	case o.turns > turns:
		return "it swings"
	case o.late > 0.1:
		return "it is too slow too often"
	case o.answered == 0 || o.answered > 7:
		return "it answers late"
	case float64(o.last) < load || o.most > 2*o.last+2:
		return "it has too few CPUs, or too many"
	case o.least < 2 || o.most > 250:
		return "it leaves its bounds"
	}
	return ""
}

// The loop settles on every plant: with half and twice the gain, late and noisy indicators, small and large pools. A step of half the load is
// answered within seven periods, without more than twice the CPUs, and then it hardly moves.
func TestSteeringSettles(t *testing.T) {
	for _, c := range settlings() {
		before, after := c.settle(ProfileDefaults())
		t.Logf("%+v: %v", c, before)
		t.Logf("%+v after a step: %v", c, after)
		if why := c.wrong(before, c.size); why != "" {
			t.Errorf("%+v: %s: %v", c, why, before)
		}
		if why := c.wrong(after, 1.5*c.size); why != "" {
			t.Errorf("%+v after a step: %s: %v", c, why, after)
		}
	}
}

// Without one of its parts the law fails on some of these plants, or is never at rest.
func TestSteeringNeedsItsParts(t *testing.T) {
	try := func(take func(*ProfileParams)) (failed, moves int) {
		for _, c := range settlings() {
			by := ProfileDefaults()
			take(&by)
			before, after := c.settle(by)
			if c.wrong(before, c.size) != "" || c.wrong(after, 1.5*c.size) != "" {
				failed++
			}
			moves += before.moves + after.moves
		}
		return failed, moves
	}
	_, atRest := try(func(*ProfileParams) {})
	for _, c := range []struct {
		name string
		take func(*ProfileParams)
	}{
		{"no deadband", func(p *ProfileParams) { p.Above, p.Below = 0, 0 }},
		{"no hold", func(p *ProfileParams) { p.HoldMin, p.HoldMax = 0, 0 }},
		{"as fast down as up", func(p *ProfileParams) { p.StepDown, p.IntegralDown = p.StepUp, p.IntegralUp }},
		{"no limit of growth", func(p *ProfileParams) { p.StepUp, p.GrowMost = 10, 100 }},
	} {
		failed, moves := try(c.take)
		t.Logf("%s: it fails on %d plants, %d moves instead of %d", c.name, failed, moves, atRest)
		if failed == 0 && moves < 2*atRest {
			t.Errorf("%s: nothing is lost", c.name)
		}
	}
}

// Where the pool is not given what it should have, or has more, the advice does not run away: else it would have far too much or too little when
// the pool follows again.
func TestSteeringDoesNotWindUp(t *testing.T) {
	for _, c := range []struct {
		name      string
		has, load float64
		then      float64 // the load when the pool follows again
		bad       func(outcome) bool
	}{
		{"others have what it wants", 12, 16, 8, func(o outcome) bool { return o.most > 40 }},
		{"nobody wants what it has", 40, 10, 10, func(o outcome) bool { return o.least < 10 || o.slow > 0 }},
	} {
		with := func(by ProfileParams) outcome {
			l := newLoop(1)
			l.params, l.plant.load, l.has, l.stuck = by, c.load, c.has, true
			l.run(3600, c.load)
			from := len(l.cpus)
			l.stuck, l.plant.backlog = false, 0
			l.run(1, c.then)
			l.run(1799, c.then)
			return l.outcome(from)
		}
		by := ProfileDefaults()
		if o := with(by); c.bad(o) {
			t.Errorf("%s: %v", c.name, o)
		}
		by.LeadUp, by.LeadDown, by.LeadCPUs = 10, 1, 1024
		if o := with(by); !c.bad(o) {
			t.Errorf("%s: without the bounds of the lead nothing is lost: %v", c.name, o)
		}
	}
}

// steered is an observation of one zone with 64 CPUs, whose pools "web" and "ads" have 20 each.
func steered() *Observation {
	o := quiet(1)
	o.NUMANodes[0].Divisible = 64
	o.Pools = []Pool{{Name: "ads", CPUs: 20, Requests: Known(10)}, {Name: "web", CPUs: 20, Requests: Known(10)}}
	o.Profiles = []Profile{
		{Name: "n/one", Targets: []Target{{Value: 0.2}, {Value: 0.1, Weight: 0.5}}, Period: 10 * time.Second},
		{Name: "n/two", Targets: []Target{{Value: 1}}, Period: 10 * time.Second},
	}
	return o
}

// Who rules: the worst pod's worst indicator by its weight, and of several profiles in a pool the neediest. What is not known never shrinks a pool.
func TestSteerPools(t *testing.T) {
	at, none := Known(0.2), Sample{}
	one := func(s ...Sample) Service { return Service{Pool: "web", Profile: "n/one", Indicators: s} }
	for _, c := range []struct {
		name     string
		services []Service
		change   func(*Observation)
		want     map[string]int // after a period
	}{
		{"no profiles", []Service{{Pool: "web"}}, nil, nil},
		{"all is well", []Service{one(at, Known(0.1))}, nil, map[string]int{"web": 20}},
		{"too slow", []Service{one(Known(0.4), Known(0.1))}, nil, map[string]int{"web": 24}},
		{"the other indicator, with half the weight", []Service{one(at, Known(0.4))}, nil, map[string]int{"web": 24}},
		{"the worst of two", []Service{one(Known(0.4), Known(0.1)), one(at, Known(0.1))}, nil, map[string]int{"web": 24}},
		{"well within", []Service{one(Known(0.01), Known(0))}, nil, map[string]int{"web": 20}},
		{"and one is missing: some know better", []Service{one(Known(0.4), none)}, nil, map[string]int{"web": 24}},
		{"nothing is known", []Service{one(none, none)}, nil, map[string]int{"web": 20}},
		{"of two profiles the neediest", []Service{
			one(Known(0.4), none), {Pool: "web", Profile: "n/two", Indicators: []Sample{Known(9)}}, {Pool: "ads", Profile: "n/two", Indicators: []Sample{Known(1)}},
		}, nil, map[string]int{"web": 26, "ads": 20}},
		{"a profile that is not there", []Service{{Pool: "web", Profile: "n/three", Indicators: []Sample{Known(9)}}}, nil, map[string]int{}},
		{"fewer indicators than targets", []Service{one(Known(0.4))}, nil, map[string]int{"web": 24}},
		{"at most", []Service{one(Known(9), at)}, func(o *Observation) { o.Profiles[0].MostCPUs = 22 }, map[string]int{"web": 22}},
		{"at most, by requests", []Service{one(Known(9), at)}, func(o *Observation) { o.Profiles[0].MostShare = 1.5 }, map[string]int{"web": 15}},
		{"at least", []Service{one(at, Known(0.1))}, func(o *Observation) { o.Profiles[0].LeastCPUs = 23 }, map[string]int{"web": 23}},
		{"at least, by requests", []Service{one(at, Known(0.1))}, func(o *Observation) { o.Profiles[0].LeastShare = 2.15 }, map[string]int{"web": 22}},
		{"no more than there are", []Service{one(Known(9), at)}, func(o *Observation) { o.NUMANodes[0].Divisible = 21 }, map[string]int{"web": 21}},
		{"what it has is not known", []Service{one(at, Known(0.1))}, func(o *Observation) { o.Pools = []Pool{{Name: "web", Requests: Known(9)}} }, map[string]int{"web": 9}},
		{"nor what it asks for", []Service{one(at, at)}, func(o *Observation) { o.Pools = nil }, map[string]int{}},
	} {
		o, p, m := steered(), Defaults(), ProfileState{}
		o.Services = c.services
		if c.change != nil {
			c.change(o)
		}
		var got map[string]int
		for o.At = 0; o.At <= 10*time.Second; o.At += time.Second {
			got = steerPools(o, &p, &m)
		}
		if !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The pools of services with a profile are kept from lending.
func TestSteeredPoolsAreNotLent(t *testing.T) {
	lend := func(profile string) int {
		o, p, m := steered(), Defaults(), State{}
		o.Services = []Service{{ID: "n/a", Pool: "web", Profile: profile, Indicators: []Sample{Known(5)}, CPUUse: Known(2)}}
		o.Profiles[1].LeastCPUs, o.NUMANodes[0].SharedUse = 40, Known(4)
		var a Advice
		for range 300 {
			o.At += time.Second
			a = Step(o, &p, &m)
			o.NUMANodes[0].Lent = a.NUMANodes[0].Lend * o.NUMANodes[0].Threads
			o.Pools[1].CPUs = max(20, a.Pools["web"])
		}
		if profile != "" && a.Pools["web"] < 40 {
			t.Errorf("the pool should have %v", a.Pools)
		}
		return a.NUMANodes[0].Lend
	}
	if with, without := lend("n/two"), lend(""); with >= without || with > 12 {
		t.Errorf("%d cores are lent, and %d without the profile", with, without)
	}
}

// anyReading is what can be seen, and what cannot.
func anyReading(t *rapid.T, at time.Duration) Reading {
	return Reading{
		At: at, Error: anySample(t, "error", 4), Whole: rapid.Bool().Draw(t, "whole"),
		Has: rapid.IntRange(0, 80).Draw(t, "has"), Most: rapid.IntRange(0, 64).Draw(t, "most"), Requests: anySample(t, "requests", 40),
	}
}

// moved judges one move of the size.
func moved(t *rapid.T, before, size float64, decided, missing bool) {
	by := ProfileDefaults()
	if !decided && size != before {
		t.Fatalf("it moves within a period")
	}
	if size < before && missing {
		t.Fatalf("it shrinks from %v to %v and does not see all", before, size)
	}
	if size < before*(1-by.StepDown)-1e-9 || size > max(math.Ceil(before)*(1+by.StepUp), math.Ceil(before)+1)+1e-9 {
		t.Fatalf("from %v to %v at once", before, size)
	}
}

// Whatever is seen, the advice is within its bounds, moves once in a period and no more than its steps, does not shrink blindly, and is the same
// for the same, also from a memory that went through JSON.
func TestPropertySteer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Profile{
			LeastCPUs: rapid.IntRange(0, 20).Draw(t, "least"), MostCPUs: rapid.IntRange(0, 40).Draw(t, "most"), Period: 10 * time.Second,
			LeastShare: rapid.Float64Range(0, 2).Draw(t, "least share"), MostShare: rapid.Float64Range(0, 3).Draw(t, "most share"),
		}
		by, s, at, missing := ProfileDefaults(), Steering{}, time.Duration(0), true
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			at += time.Duration(rapid.IntRange(-2, 8).Draw(t, "seconds")) * time.Second
			r := anyReading(t, max(0, at))
			var copied Steering
			if text, err := json.Marshal(&s); err != nil || json.Unmarshal(text, &copied) != nil {
				t.Fatalf("%+v does not go through JSON: %v", s, err)
			}
			before, began := s.Size, s.Began
			n, ok := Steer(&p, &by, r, &s)
			if again, _ := Steer(&p, &by, r, &copied); again != n || copied != s {
				t.Fatalf("not the same: %d and %d", n, again)
			}
			low, high := p.bounds(&r)
			if ok && (float64(n) < low || float64(n) > math.Ceil(high) || math.IsNaN(s.Size)) {
				t.Fatalf("%d CPUs, from %v to %v", n, low, high)
			}
			missing = missing || !r.Whole
			decided := s.Began != began
			if low <= before && before <= high && before > 0 { // else the bounds have moved it
				moved(t, before, s.Size, decided, missing)
			}
			if decided {
				missing = false
			}
		}
	})
}

func TestProfileOf(t *testing.T) {
	got := ProfileOf(&spec.NamedProfile{Namespace: "n", Name: "p", ServiceProfile: spec.ServiceProfile{
		Indicators: []spec.ProfileIndicator{{Type: spec.IndicatorRunDelay, Target: 0.1}, {Type: spec.IndicatorCPI, Target: 1.4, Weight: 2}},
		Bounds:     spec.ProfileBounds{MinCPUs: 2, MaxCPUs: 8, MinPercent: 50, MaxPercent: 150}, Period: spec.Duration(time.Minute),
	}})
	want := Profile{
		Name: "n/p", Targets: []Target{{Value: 0.1}, {Value: 1.4, Weight: 2}}, LeastCPUs: 2, MostCPUs: 8, LeastShare: 0.5, MostShare: 1.5, Period: time.Minute,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := ProfileOf(&spec.NamedProfile{}); got.Period != spec.DefaultProfilePeriod.D() {
		t.Errorf("%+v", got)
	}
}
