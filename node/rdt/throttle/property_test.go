package throttle

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/advise"
)

// anyParams are valid.
func anyParams(t *rapid.T) Params {
	p := Params{Carries: giga * rapid.Float64Range(1, 500).Draw(t, "carries"), Stale: DefaultStale}
	p.High = rapid.Float64Range(0.2, 1).Draw(t, "high")
	p.Low = p.High * rapid.Float64Range(0.1, 0.99).Draw(t, "low")
	p.Least = rapid.IntRange(1, 100).Draw(t, "least")
	p.Most = rapid.IntRange(p.Least, 100).Draw(t, "most")
	p.Step = rapid.IntRange(1, 40).Draw(t, "step")
	p.Hold = time.Duration(rapid.IntRange(10, 120).Draw(t, "hold")) * time.Second
	return p
}

// anySample is about so much, or is nothing that can be.
func anySample(t *rapid.T, name string, about float64) advise.Sample {
	if rapid.IntRange(0, 9).Draw(t, name+" is") == 0 {
		return rapid.SampledFrom([]advise.Sample{{}, {Value: about}, {Value: math.NaN(), Known: true}, {Value: math.Inf(1), Known: true}, {Value: -1, Known: true}}).Draw(t, name)
	}
	return advise.Known(about * rapid.Float64Range(0, 1.3).Draw(t, name))
}

// past is what a naive reader of the readings remembers of a domain.
type past struct {
	at                time.Duration
	percent           int
	quietSince        time.Duration // of an unbroken run of readings at low or below; negative: the last one was not
	seen              time.Duration
	risen, everChange time.Duration // the last rise and the last change; negative: there was none
}

// A percentage falls only for a known reading that is high and to which reclaimed pods add; it rises by one step, after a calm time of Hold and no change in it; or to what is configured when
// nothing has been known for long. Growth is held only where something was known to be more than low.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams(t)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		fixed := rapid.IntRange(0, 4).Draw(t, "fixed") == 0
		busy := rapid.Float64Range(0.3, 1).Draw(t, "busy")
		now, state, before := time.Duration(0), State{}, map[int]past{}
		for range rapid.IntRange(1, 80).Draw(t, "readings") {
			now += time.Duration(rapid.IntRange(5, 20).Draw(t, "seconds")) * time.Second
			o := Observation{At: now, Fixed: fixed}
			for id := range rapid.IntRange(1, 3).Draw(t, "domains") {
				total := anySample(t, "total", busy*p.Carries)
				o.Domains = append(o.Domains, Domain{id, total, anySample(t, "reclaimed", total.Value/2)})
			}
			var d Decision
			d, state = Step(&o, &p, state)
			if len(d.Domains) != len(o.Domains) || len(state.domains) != len(o.Domains) {
				t.Fatalf("%d domains, %+v, %d are remembered", len(o.Domains), d.Domains, len(state.domains))
			}
			may := false
			next := map[int]past{}
			for i, s := range d.Domains {
				was, known := before[s.Domain]
				if !known {
					was = past{at: now, percent: p.Most, quietSince: -1, seen: now, risen: -1, everChange: -1}
				}
				next[s.Domain] = turn{&p, now, fixed}.follow(t, &o.Domains[i], was, s)
				may = may || next[s.Domain].quietSince < 0 && now-next[s.Domain].seen <= p.Stale
			}
			if d.HoldGrowth && !may {
				t.Fatalf("growth is held: %+v of %+v", d, o)
			}
			before = next
		}
	})
}

// turn is one reading's parameters, its time, and whether nobody can be slowed down.
type turn struct {
	p     *Params
	now   time.Duration
	fixed bool
}

// follow checks one domain's setting against its reading and what was before.
func (c turn) follow(t *rapid.T, r *Domain, was past, s Setting) past {
	p, now, fixed := c.p, c.now, c.fixed
	total, ok := value(r.Total)
	reclaimed, told := value(r.Reclaimed)
	out := was
	out.at, out.percent = now, s.Percent
	switch {
	case !ok || total > p.Low*p.Carries:
		out.quietSince = -1
	case was.quietSince < 0:
		out.quietSince = now
	}
	if ok {
		out.seen = now
	}
	if s.Percent < p.Least || s.Percent > p.Most {
		t.Fatalf("%d percent: want %d to %d", s.Percent, p.Least, p.Most)
	}
	switch {
	case s.Percent < was.percent:
		if fixed || !ok || total < p.High*p.Carries || told && reclaimed < leastPart*p.Carries || was.percent-s.Percent > p.Step {
			t.Fatalf("from %d to %d percent by %+v", was.percent, s.Percent, r)
		}
		out.everChange = now
	case s.Percent > was.percent && s.Kind == Stale:
		if ok || now-was.seen <= p.Stale || s.Percent != p.Most {
			t.Fatalf("from %d to %d percent after %v", was.percent, s.Percent, now-was.seen)
		}
		out.everChange = now
	case s.Percent > was.percent:
		if !ok || total > p.Low*p.Carries || s.Percent-was.percent > p.Step || now-out.quietSince < p.Hold || was.everChange >= 0 && now-was.everChange < p.Hold {
			t.Fatalf("from %d to %d percent at %v by %+v; quiet since %v, changed %v", was.percent, s.Percent, now, r, out.quietSince, was.everChange)
		}
		out.everChange = now
	}
	return out
}

// Domains do not know of each other, and the order in which they stand says nothing.
func TestDomainsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, now := anyParams(t), time.Duration(0)
		var both, first, second State
		for range rapid.IntRange(1, 40).Draw(t, "readings") {
			now += 10 * time.Second
			list := []Domain{{0, anySample(t, "total", p.Carries), anySample(t, "reclaimed", p.Carries)}, {1, anySample(t, "total", p.Carries), anySample(t, "reclaimed", p.Carries)}}
			var x, y, z Decision
			x, first = Step(&Observation{At: now, Domains: list[:1]}, &p, first)
			y, second = Step(&Observation{At: now, Domains: list[1:]}, &p, second)
			slices.Reverse(list)
			z, both = Step(&Observation{At: now, Domains: list}, &p, both)
			if want := append(x.Domains, y.Domains...); !reflect.DeepEqual(z.Domains, want) || z.HoldGrowth != (x.HoldGrowth || y.HoldGrowth) {
				t.Fatalf("together %+v, apart %+v", z, want)
			}
		}
	})
}

// A domain that stays full comes to the least, one step a reading; one that stays calm comes back to what is configured, whatever was before.
func TestItSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, now, state := anyParams(t), time.Duration(0), State{}
		run := func(readings int, total advise.Sample) (d Decision) {
			for range readings {
				now += 10 * time.Second
				d, state = Step(&Observation{At: now, Domains: []Domain{{0, total, advise.Known(total.Value / 2)}}}, &p, state)
			}
			return d
		}
		for range rapid.IntRange(0, 30).Draw(t, "before") {
			run(1, anySample(t, "total", p.Carries))
		}
		steps := (p.Most - p.Least + p.Step - 1) / p.Step
		if d := run(steps+1, advise.Known(p.Carries)); d.Domains[0].Percent != p.Least || !d.HoldGrowth {
			t.Fatalf("full: %+v, %+v", d, p)
		}
		long := (steps + 2) * maxWait * (int(p.Hold/(10*time.Second)) + 1)
		if d := run(long, advise.Known(0)); d.Domains[0] != (Setting{0, p.Most, Free}) || d.HoldGrowth {
			t.Fatalf("calm: %+v, %+v", d, p)
		}
	})
}

func TestValidate(t *testing.T) {
	for name, spoil := range map[string]func(*Params){
		"carries nothing":   func(p *Params) { p.Carries = 0 },
		"carries no number": func(p *Params) { p.Carries = math.NaN() },
		"low above high":    func(p *Params) { p.Low = 0.95 },
		"low is zero":       func(p *Params) { p.Low = 0 },
		"high above one":    func(p *Params) { p.High = 1.1 },
		"least above most":  func(p *Params) { p.Least = 50 },
		"least is zero":     func(p *Params) { p.Least = 0 },
		"most above all":    func(p *Params) { p.Most = 101 },
		"no step":           func(p *Params) { p.Step = 0 },
		"no hold":           func(p *Params) { p.Hold = 0 },
		"never stale":       func(p *Params) { p.Stale = 0 },
	} {
		p := params()
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		if spoil(&p); p.Validate() == nil {
			t.Errorf("%s: %+v is valid", name, p)
		}
	}
}
