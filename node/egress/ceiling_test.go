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

// fake is a kernel with uplinks, of whom everything can be asked to fail.
type fake struct {
	counts           map[string]Counts
	traffic          map[string]Traffic
	sent             map[string]map[string]advise.Sample
	set              map[string][]Rates
	pods             []Pod
	fails, failCount error
}

func (f *fake) SetRates(uplink string, rates Rates) error {
	if f.fails == nil {
		f.set[uplink] = append(f.set[uplink], rates)
	}
	return f.fails
}
func (f *fake) SetPods(pods []Pod) error           { f.pods = pods; return f.fails }
func (f *fake) Counts() (map[string]Counts, error) { return f.counts, f.failCount }
func (f *fake) Traffic() map[string]Traffic        { return f.traffic }
func (f *fake) Sent() map[string]map[string]advise.Sample {
	return f.sent
}

// idle is what an uplink of 1000 bytes a second has carried that has carried nothing.
func idle() Traffic {
	return Traffic{Received: advise.Known(0), Sent: advise.Known(0), Lost: advise.Known(0), Unsent: advise.Known(0), Link: advise.Known(1000)}
}

// Control says which uplinks are pressed, and forgets those that are gone.
func TestControlPressed(t *testing.T) {
	k := &fake{set: map[string][]Rates{}}
	c := NewControl(k, params(), false)
	var s State
	for i := range 13 {
		n := float64(i)
		a, b := idle(), idle()
		a.Sent.Value, b.Sent.Value = 990*n, 100*n
		k.traffic = map[string]Traffic{"a": a, "b": b}
		s, _ = c.Step(time.Duration(i)*time.Second, nil)
	}
	if len(s.Pressed) != 1 || s.Pressed[0] != "a" {
		t.Errorf("pressed %q, want a", s.Pressed)
	}
	k.traffic = nil
	if s, _ = c.Step(time.Minute, nil); len(s.Pressed) != 0 || len(c.uplinks) != 0 {
		t.Errorf("pressed %q without uplinks", s.Pressed)
	}
}

func TestControl(t *testing.T) {
	k := &fake{set: map[string][]Rates{}, counts: map[string]Counts{"a": {}}, traffic: map[string]Traffic{"a": idle()}}
	c := NewControl(k, params(), false)
	at := time.Minute
	step := func(sent, want uint64, writes int) UplinkState {
		t.Helper()
		k.counts["a"] = Counts{Online: Class{Bytes: k.counts["a"].Online.Bytes + sent}}
		all, err := c.Step(at, []Pod{{Cgroup: "a", Reclaimed: true}})
		at += time.Second
		s := all.Uplinks["a"]
		if (err != nil) != (k.fails != nil || k.failCount != nil) || s.Ceilings != (Rates{Outgoing: want}) || len(k.set["a"]) != writes {
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
	k.counts = map[string]Counts{"a": {}}
	step(0, 200, 3) // the counters began anew: not known
	k.failCount = errors.New("no")
	k.counts = nil
	if s, err := c.Step(at, nil); err == nil || s.Uplinks["a"].Ceilings.Outgoing != 200 {
		t.Errorf("%+v, %v: the counters cannot be read", s, err)
	}
	at += time.Second
	k.failCount, k.counts = nil, map[string]Counts{"a": {}}
	step(0, 200, 3) // the first reading gives no rate
	k.fails = errors.New("no")
	step(800, 200, 3) // it cannot be set
	k.fails = nil
	step(800, 10, 4) // and is tried again
	if len(k.pods) != 1 {
		t.Errorf("pods %v", k.pods)
	}
}

// Each uplink has a ceiling by its own link and its own online traffic: one that is full takes nothing from the other, and one whose link is not known has the floor alone.
func TestControlOfSeveralUplinks(t *testing.T) {
	t.Parallel()
	k := &fake{set: map[string][]Rates{}, counts: map[string]Counts{}}
	c := NewControl(k, params(), false)
	full, free, unknown := idle(), idle(), idle()
	free.Link, unknown.Link = advise.Known(4000), advise.Sample{}
	k.traffic = map[string]Traffic{"full": full, "free": free, "unknown": unknown}
	var s State
	for i := range uint64(60) {
		k.counts["full"], k.counts["free"], k.counts["unknown"] = Counts{Online: Class{Bytes: 700 * i}}, Counts{Online: Class{Bytes: 800 * i}}, Counts{}
		s, _ = c.Step(time.Duration(i)*time.Second, nil)
	}
	for name, want := range map[string]uint64{"full": 10, "free": 4000*8/10 - 1000, "unknown": 10} {
		if got := s.Uplinks[name].Ceilings.Outgoing; got != want {
			t.Errorf("%s: ceiling %d, want %d", name, got, want)
		}
	}
}

// What comes in has a ceiling where that is wanted, by what comes for online pods: all that the interface received, less what came for reclaimed pods, dropped or not.
func TestControlOfWhatComesIn(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		k := &fake{set: map[string][]Rates{}, counts: map[string]Counts{}}
		c := NewControl(k, params(), wanted)
		var s State
		for i := range uint64(60) {
			now := idle()
			now.Received.Value = float64(900 * i)
			k.traffic = map[string]Traffic{"a": now}
			k.counts["a"] = Counts{Incoming: Class{Bytes: 300 * i, Refused: 200 * i}}
			s, _ = c.Step(time.Duration(i)*time.Second, nil)
		}
		want := uint64(0)
		if wanted {
			want = 800 - 500 // of 400 and a quarter
		}
		if got := s.Uplinks["a"]; got.Ceilings.Incoming != want || got.OnlineIncoming != advise.Known(400) {
			t.Errorf("wanted %v: %+v, want a ceiling of %d", wanted, got, want)
		}
	}
}

// What comes in may be ahead of its rate by a tenth of a second, and never by more bytes than may wait.
func TestBurst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bytesPerSecond := rapid.Uint64Range(0, 1<<40).Draw(t, "rate")
		if b := burst(bytesPerSecond); b <= 0 || b > 100*time.Millisecond || float64(bytesPerSecond)*b.Seconds() > waitBytes*1.001 {
			t.Fatalf("%d bytes/s: %s", bytesPerSecond, b)
		}
	})
}
