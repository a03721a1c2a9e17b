package egress

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/advise"
)

func params() Params {
	return Params{Share: 0.8, Headroom: 0.25, Floor: 10, Rise: 0.1, HalfLife: 10 * time.Second, Hold: 5 * time.Second}
}

// run gives the ceilings of observations that are a second apart, for a link of 1000.
func run1000(p Params, online ...advise.Sample) []float64 {
	var (
		m   Memory
		out []float64
		c   float64
	)
	for i, sample := range online {
		c, m = Ceiling(Observation{At: time.Duration(100+i) * time.Second, Link: advise.Known(1000), Online: sample}, p, m)
		out = append(out, math.Round(c))
	}
	return out
}

func TestCeiling(t *testing.T) {
	k, unknown := advise.Known, advise.Sample{}
	for name, c := range map[string]struct {
		online []advise.Sample
		want   []float64
	}{
		"rises by a tenth of the link a second":  {[]advise.Sample{unknown, k(0), k(0), k(0)}, []float64{10, 110, 210, 310}},
		"what is left, and no more":              {[]advise.Sample{k(480), k(480), k(480), k(480)}, []float64{10, 110, 200, 200}},
		"falls at once":                          {[]advise.Sample{k(0), k(0), k(0), k(600)}, []float64{10, 110, 210, 50}},
		"never below the floor":                  {[]advise.Sample{k(0), k(0), k(5000)}, []float64{10, 110, 10}},
		"a peak is remembered":                   {[]advise.Sample{k(600), k(0)}, []float64{10, 100}}, // 800 - 560*1.25
		"stays while online is not known":        {[]advise.Sample{k(0), k(0), unknown, unknown}, []float64{10, 110, 110, 110}},
		"and falls to the floor after some time": {[]advise.Sample{k(0), k(0), unknown, unknown, unknown, unknown, unknown, unknown}, []float64{10, 110, 110, 110, 110, 110, 110, 10}},
		"no number":                              {[]advise.Sample{k(0), k(0), k(math.NaN()), k(math.Inf(1)), k(-1)}, []float64{10, 110, 110, 110, 110}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run1000(params(), c.online...); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestCeilingWithoutLink(t *testing.T) {
	m := Memory{Begun: true, Ceiling: 500, At: time.Second, Seen: time.Second}
	if c, _ := Ceiling(Observation{At: 2 * time.Second, Online: advise.Known(0)}, params(), m); c != 10 {
		t.Errorf("ceiling %g, want the floor", c)
	}
}

// Whatever is seen: a finite ceiling between the floor and the share, that rises no faster than it may, and that leaves online pods what they
// send now; and more online traffic never raises it.
func TestCeilingProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := params()
		sample := rapid.Custom(func(t *rapid.T) advise.Sample {
			return advise.Sample{Value: rapid.Float64Range(-10, 2000).Draw(t, "value"), Known: rapid.Bool().Draw(t, "known")}
		})
		var m Memory
		at := time.Hour
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			elapsed := time.Duration(rapid.Int64Range(-1e9, 3e9).Draw(t, "elapsed"))
			at += elapsed
			o := Observation{At: at, Link: sample.Draw(t, "link"), Online: sample.Draw(t, "online")}
			before := m
			var c float64
			c, m = Ceiling(o, p, m)
			most := p.Floor
			if link, known := rate(o.Link); known {
				most = max(most, link*p.Share)
				if before.Begun && c > max(before.Ceiling, p.Floor)+p.Rise*link*max(elapsed, 0).Seconds()+1e-6 {
					t.Fatalf("rose from %g to %g in %s", before.Ceiling, c, elapsed)
				}
				if online, known := rate(o.Online); known && c > max(link*p.Share-online*(1+p.Headroom), p.Floor)+1e-6 {
					t.Fatalf("ceiling %g beside %g of %g", c, online, link)
				}
			}
			if !(c >= p.Floor && c <= most) {
				t.Fatalf("ceiling %g, want %g to %g", c, p.Floor, most)
			}
			if o.Online.Known {
				more := o
				more.Online.Value = max(more.Online.Value, 0) * 2
				if c2, _ := Ceiling(more, p, before); o.Online.Value >= 0 && c2 > c {
					t.Fatalf("more online traffic raised the ceiling from %g to %g", c, c2)
				}
			}
		}
	})
}

// What may wait never fills the qdisc, nor takes longer than the bound.
func TestHorizon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytesPerSecond := rapid.Uint64Range(0, 1<<40).Draw(t, "rate")
		h := horizon(bytesPerSecond)
		if h <= 0 || h > waitMost || float64(bytesPerSecond)*h.Seconds() > waitBytes*1.001 {
			t.Fatalf("%d bytes/s: %s", bytesPerSecond, h)
		}
	})
}

// fake is a kernel of whom everything can be asked to fail.
type fake struct {
	counts           Counts
	traffic          map[string]Traffic
	sent             map[string]advise.Sample
	link             advise.Sample
	set              []uint64
	pods             []string
	fails, failCount error
}

func (f *fake) SetCeiling(n uint64) error {
	if f.fails == nil {
		f.set = append(f.set, n)
	}
	return f.fails
}
func (f *fake) SetReclaimed(cgroups []string) error { f.pods = cgroups; return f.fails }
func (f *fake) Counts() (Counts, error)             { return f.counts, f.failCount }
func (f *fake) Link() advise.Sample                 { return f.link }
func (f *fake) Traffic() map[string]Traffic         { return f.traffic }
func (f *fake) Sent() map[string]advise.Sample      { return f.sent }

// Control says which uplinks are pressed, and forgets those that are gone.
func TestControlPressed(t *testing.T) {
	k := &fake{link: advise.Known(1000)}
	c := NewControl(k, params())
	var s State
	for i := range 13 {
		n := float64(i)
		k.traffic = map[string]Traffic{
			"a": {Received: advise.Known(0), Sent: advise.Known(990 * n), Lost: advise.Known(0), Link: advise.Known(1000)},
			"b": {Received: advise.Known(0), Sent: advise.Known(100 * n), Lost: advise.Known(0), Link: advise.Known(1000)},
		}
		s, _ = c.Step(time.Duration(i)*time.Second, nil)
	}
	if len(s.Pressed) != 1 || s.Pressed[0] != "a" {
		t.Errorf("pressed %q, want a", s.Pressed)
	}
	k.traffic = nil
	if s, _ = c.Step(time.Minute, nil); len(s.Pressed) != 0 || len(c.use) != 0 {
		t.Errorf("pressed %q without uplinks", s.Pressed)
	}
}

func TestControl(t *testing.T) {
	k := &fake{link: advise.Known(1000)}
	c := NewControl(k, params())
	at := time.Minute
	step := func(sent, want uint64, writes int) State {
		t.Helper()
		k.counts.Online.Bytes += sent
		s, err := c.Step(at, []string{"a"})
		at += time.Second
		if (err != nil) != (k.fails != nil || k.failCount != nil) || s.Ceiling != want || len(k.set) != writes {
			t.Fatalf("state %+v, error %v, writes %v; want ceiling %d, %d writes", s, err, k.set, want, writes)
		}
		return s
	}
	step(0, 10, 1) // nothing is known yet: the floor
	if s := step(480, 110, 2); s.Online != advise.Known(480) {
		t.Errorf("online %+v, want 480", s.Online)
	}
	step(480, 200, 3)
	step(480, 200, 3) // what is right is not written again
	k.counts = Counts{}
	step(0, 200, 3) // the counters began anew: not known
	k.failCount = errors.New("no")
	step(0, 200, 3)
	k.failCount = nil
	step(0, 200, 3) // the first reading gives no rate
	k.fails = errors.New("no")
	step(800, 200, 3) // it cannot be set
	k.fails = nil
	step(800, 10, 4) // and is tried again
	if len(k.pods) != 1 {
		t.Errorf("pods %v", k.pods)
	}
}
