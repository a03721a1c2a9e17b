package overcommit

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

var start = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

// bench is a node of 100 CPUs whose services ask for what the transcript says.
type bench struct {
	params Params
	state  State
	now    time.Time
	last   Decision
}

func newBench() *bench { return &bench{params: DefaultParams(), now: start} }

// see shows one reading, and passes so much time.
func (b *bench) see(r Reading, pass time.Duration) Decision {
	r.Wall = b.now
	b.last = Step(&r, &b.params, &b.state)
	b.now = b.now.Add(pass)
	return b.last
}

func (d *Decision) String() string {
	return fmt.Sprintf("%d%% %s: %s", d.Percent, d.Reason, d.Message)
}

// TestTranscripts: pass lets minutes go by with the same readings, two a minute, and prints the decisions that differ; restart saves the state and goes on with it.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		b := newBench()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "params":
				d.MaybeScanArgs(t, "max", &b.params.Max)
				d.MaybeScanArgs(t, "learn", &b.params.Learn)
				d.MaybeScanArgs(t, "calm", &b.params.Calm)
				return ""
			case "restart":
				away := 0
				d.MaybeScanArgs(t, "minutes", &away)
				text, err := json.Marshal(&b.state)
				if err != nil {
					t.Fatal(err)
				}
				b.state, b.now = State{}, b.now.Add(time.Duration(away)*time.Minute)
				if err := json.Unmarshal(text, &b.state); err != nil {
					t.Fatal(err)
				}
				b.state.Restore(b.now)
				return ""
			case "pass":
				return b.pass(t, d)
			}
			t.Fatalf("no command %s", d.Cmd)
			return ""
		})
	})
}

func (b *bench) pass(t *testing.T, d *datadriven.TestData) string {
	count, hours, use := 0, 0, 0.0
	r := Reading{CPUs: 100, Asked: 100, Delay: 0, Pressure: 0}
	d.MaybeScanArgs(t, "minutes", &count)
	d.MaybeScanArgs(t, "hours", &hours)
	for _, f := range []struct {
		name string
		to   *float64
	}{{"use", &use}, {"asked", &r.Asked}, {"delay", &r.Delay}, {"pressure", &r.Pressure}} {
		if d.HasArg(f.name) {
			var text string
			d.ScanArgs(t, f.name, &text)
			if *f.to = math.NaN(); text != "unknown" {
				if _, err := fmt.Sscan(text, f.to); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if r.Use = use; d.HasArg("harmed") {
		r.Harmed = "shop/web: run delay is 9 deviations beyond its baseline"
	}
	var out strings.Builder
	last := b.last
	for i := range 2 * (count + 60*hours) {
		if got := b.see(r, 30*time.Second); i == 0 || got.Percent != last.Percent || got.Reason != last.Reason {
			fmt.Fprintf(&out, "%s %s\n", b.now.Add(-30*time.Second).Format("Mon 15:04"), got.String())
			last = got
		}
	}
	return out.String()
}

// draw is a reading of anything.
func draw(t *rapid.T) Reading {
	number := func(name string, most float64) float64 {
		if rapid.IntRange(0, 19).Draw(t, name+" is unknown") == 0 {
			return math.NaN()
		}
		return rapid.Float64Range(0, most).Draw(t, name)
	}
	r := Reading{CPUs: rapid.SampledFrom([]float64{0, 1, 64, 100}).Draw(t, "CPUs"), Asked: number("asked", 300), Use: number("use", 120), Delay: number("delay", 0.4), Pressure: number("pressure", 0.4)}
	if rapid.IntRange(0, 9).Draw(t, "harmed") == 0 {
		r.Harmed = "x"
	}
	return r
}

// TestInvariants: the percent is within its bounds; it rises by no more than Rise an hour; it is 100 until Learn hours are known; while a service is harmed it does not rise; a saved
// state gives the same percent.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench()
		b.params.Learn = rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "learn")
		b.params.Rise = rapid.SampledFrom([]float64{10, 600}).Draw(t, "rise")
		if err := b.params.Validate(); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "a past") {
			for i := range b.state.Peaks {
				b.state.Peaks[i] = rapid.Float64Range(0, 0.6).Draw(t, "peak")
			}
			b.state.Percent, b.state.Told, b.state.At = 140, 140, b.now
			b.state.Restore(b.now)
		}
		for range rapid.IntRange(1, 40).Draw(t, "spells") {
			r, before, began := draw(t), b.state.Percent, b.now
			for range rapid.IntRange(1, 90).Draw(t, "readings") {
				told := b.state.Told
				d := b.see(r, time.Duration(rapid.SampledFrom([]int{1, 20, 60, 300}).Draw(t, "seconds"))*time.Second)
				switch {
				case d.Percent < whole || d.Percent > b.params.Max || float64(d.Percent) > b.state.Percent:
					t.Fatalf("%d percent of %g, at most %d", d.Percent, b.state.Percent, b.params.Max)
				case d.Percent > whole && b.state.hours() < b.params.Learn:
					t.Fatalf("%d percent after %d hours", d.Percent, d.Hours)
				case told > 0 && d.Percent > max(told, whole) && r.Harmed != "":
					t.Fatalf("%d percent after %d while a service is harmed", d.Percent, told)
				case d.Reason == "" || d.Message == "":
					t.Fatalf("%+v does not say why", d)
				}
			}
			if rise := b.state.Percent - max(before, whole); rise > b.params.Rise*(b.now.Sub(began).Hours()+2.0/60) {
				t.Fatalf("%g points in %v", rise, b.now.Sub(began))
			}
		}
		text, err := json.Marshal(&b.state)
		var again State
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if again.Restore(b.now); err != nil || b.now.Sub(b.state.At) <= resumes && (again.Percent != b.state.Percent || again.Peaks != b.state.Peaks) {
			t.Fatalf("%v: %s", err, text)
		}
	})
}

func TestParams(t *testing.T) {
	for _, change := range []func(*Params){
		func(p *Params) { p.Max = 99 }, func(p *Params) { p.Max = 1001 }, func(p *Params) { p.Target = 0 }, func(p *Params) { p.Target = 1.1 }, func(p *Params) { p.Learn = 169 },
		func(p *Params) { p.Rise = math.NaN() }, func(p *Params) { p.Delay = 0 },
	} {
		p := DefaultParams()
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(&p); p.Validate() == nil {
			t.Errorf("%+v is valid", p)
		}
	}
}
