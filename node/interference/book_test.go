package interference

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

// TestBook plays transcripts. "pods" says what pods there are; "pass windows=N" lets windows pass in which a pod uses and waits as given: "web use=1 delay=0.1".
// "restart" begins the ladder anew.
func TestBook(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		rules := DefaultRules()
		b, now := NewBook(&rules), start
		pods := make(map[string]Reading)
		var order []string
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "rules":
				var pause int
				d.MaybeScanArgs(t, "evictPause", &pause)
				rules.EvictPause = time.Duration(pause) * time.Second
				return ""
			case "pods":
				pods, order = podsOf(d.Input)
				return ""
			case "restart":
				b.Restart(time.Time{})
				return ""
			case "pass":
				var windows int
				d.ScanArgs(t, "windows", &windows)
				var out strings.Builder
				last := ""
				for w := range windows {
					for range 10 {
						now = now.Add(time.Second)
						if text := describe(b.Step(now, readings(d.Input, pods, order))); text != "" && text != last {
							fmt.Fprintf(&out, "%d: %s", w+1, text)
							last = text
						}
					}
				}
				return out.String()
			}
			t.Fatalf("no command %q", d.Cmd)
			return ""
		})
	})
}

// podsOf are pods as a transcript has them, of which nothing is known yet.
func podsOf(input string) (pods map[string]Reading, order []string) {
	pods = make(map[string]Reading)
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		r := Reading{ID: words[0], Name: words[0], Use: math.NaN(), Delay: math.NaN(), Pressure: math.NaN(), Indicator: math.NaN(), Cycles: math.NaN()}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			v, _ := strconv.ParseFloat(value, 64)
			switch key {
			case "request":
				r.Request, r.Watched = v, true
			case "asks":
				r.Request = v
			case "limitable":
				r.Limitable = true
			case "evictable":
				r.Evictable = true
			}
		}
		pods[r.ID], order = r, append(order, r.ID)
	}
	return pods, order
}

func readings(input string, pods map[string]Reading, order []string) (out []Reading) {
	given := make(map[string]Reading)
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		r := pods[words[0]]
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			v, _ := strconv.ParseFloat(value, 64)
			switch key {
			case "use":
				r.Use = v
			case "delay":
				r.Delay = v
			case "pressure":
				r.Pressure = v
			case "indicator":
				r.Indicator = v
			case "cycles":
				r.Cycles = v
			case "probed":
				r.Ahead = aheadOf(value)
			}
		}
		given[words[0]] = r
	}
	for _, id := range order {
		if r, ok := given[id]; ok {
			out = append(out, r)
		}
	}
	return out
}

// aheadOf reads whom threads waited for: "batch:2,none:0.5".
func aheadOf(text string) map[string]float64 {
	out := make(map[string]float64)
	for one := range strings.SplitSeq(text, ",") {
		id, value, _ := strings.Cut(one, ":")
		if id == "none" {
			id = NoPod
		}
		out[id], _ = strconv.ParseFloat(value, 64)
	}
	return out
}

// describe is a decision as text; what stays from window to window is left out by the caller.
func describe(d *Decision) string {
	if d == nil {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "watched %d, learning %d, growth stopped %v", d.Watched, d.Learning, d.StopGrowth)
	for _, l := range d.Limits {
		fmt.Fprintf(&out, ", limit %s to %.2f", l.ID, l.CPUs)
	}
	if d.Evict != "" {
		fmt.Fprintf(&out, ", evict %s", d.Evict)
	}
	for _, p := range d.Apart {
		fmt.Fprintf(&out, ", %s apart from %s until %s", p.Victim, p.Culprit, p.Until.Format(time.TimeOnly))
	}
	if len(d.Probe) > 0 {
		fmt.Fprintf(&out, ", probe %s", strings.Join(d.Probe, " "))
	}
	out.WriteString("\n")
	for _, f := range d.Findings {
		alone := ""
		if f.LeftAlone {
			alone = " (left alone)"
		}
		fmt.Fprintf(&out, "  %s%s: %s\n", f.Step, alone, f.Reason)
	}
	return out.String()
}

// oddReadings are those of a few pods, some of which are watched, limitable or evictable.
func oddReadings(t *rapid.T, odd *rapid.Generator[float64]) (pods []Reading) {
	for i := range rapid.IntRange(1, 5).Draw(t, "pods") {
		r := Reading{
			ID: fmt.Sprint(i), Name: fmt.Sprint("pod-", i), Watched: i%2 == 0, Request: float64(i), Limitable: i != 1, Evictable: i == 3,
			Use: odd.Draw(t, "use"), Delay: odd.Draw(t, "delay"), Pressure: odd.Draw(t, "pressure"), Indicator: odd.Draw(t, "indicator"), Cycles: odd.Draw(t, "cycles"),
		}
		if rapid.Bool().Draw(t, "probed") {
			r.Ahead = map[string]float64{"1": odd.Draw(t, "ahead"), "3": odd.Draw(t, "ahead"), NoPod: odd.Draw(t, "ahead")}
		}
		pods = append(pods, r)
	}
	return pods
}

// Whatever is read, nobody is limited who may not be, or below what it requests; nobody is evicted who may not be, nor two in the pause; and all is bounded.
func TestBookHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := DefaultRules()
		rules.Watch.Enough, rules.Watch.Quiet, rules.Watch.High = 2, 6, 2
		b, now := NewBook(&rules), start
		odd := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 0, 0.1, 0.1, 0.1, 1, 5, 1e9})
		var last string
		var began time.Time
		for range rapid.IntRange(1, 120).Draw(t, "readings") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{-20, 5, 10, 10, 10, 700}).Draw(t, "seconds")) * time.Second)
			byID := make(map[string]Reading)
			pods := oddReadings(t, odd)
			for _, r := range pods {
				byID[r.ID] = r
			}
			d := b.Step(now, pods)
			if d == nil {
				continue
			}
			for _, l := range d.Limits {
				if p := byID[l.ID]; !p.Limitable || l.CPUs < p.Request || !(l.CPUs >= rules.Least) {
					t.Fatalf("limit %+v of %+v", l, p)
				}
			}
			if d.Evict != "" && d.Evict != last {
				if !byID[d.Evict].Evictable || !began.IsZero() && now.Sub(began) < rules.EvictPause {
					t.Fatalf("%s is evicted at %v, the last one at %v", d.Evict, now, began)
				}
				began = now
			}
			last = d.Evict
			if len(b.services) > MaxWatched || len(b.apart) > maxApart || len(d.Limits) > len(pods) || len(d.Probe) > maxProbed {
				t.Fatalf("%d services, %d pairs, %d limits, %d probed", len(b.services), len(b.apart), len(d.Limits), len(d.Probe))
			}
		}
	})
}

// TestProbeIsRationed: a service can make its threads wait in every other window. It is looked at for a tenth of its calm windows, and twelve more. Of more services than are looked at
// at a time each has its turn.
func TestProbeIsRationed(t *testing.T) {
	t.Parallel()
	rules := DefaultRules()
	now := time.Unix(0, 0)
	step := func(b *Book, services int, delay float64) (probe []string) {
		var list []Reading
		for i := range services {
			list = append(list, Reading{
				ID: fmt.Sprintf("web-%02d", i), Watched: true, Request: 2, Use: 1, Delay: delay, Pressure: math.NaN(), Indicator: math.NaN(), Cycles: math.NaN(),
			})
		}
		now = now.Add(Length)
		if d := b.Step(now, list); d != nil {
			probe = d.Probe
		}
		return probe
	}
	const enough, pairs = 40, 200
	b := NewBook(&rules)
	for range enough {
		step(b, 1, 0.1)
	}
	looked := 0
	for range pairs {
		looked += len(step(b, 1, 3)) + len(step(b, 1, 0.1))
	}
	if most := probeWindows + pairs/probeRest; looked < probeWindows || looked > most {
		t.Errorf("looked at in %d of %d windows, want %d to %d", looked, 2*pairs, probeWindows, most)
	}
	b = NewBook(&rules)
	const many = maxProbed + 4
	for range enough {
		step(b, many, 0.1)
	}
	seen := make(map[string]bool)
	for range 2 {
		list := step(b, many, 3)
		if len(list) != maxProbed {
			t.Errorf("%d are looked at: %q", len(list), list)
		}
		for _, id := range list {
			seen[id] = true
		}
	}
	if len(seen) != many {
		t.Errorf("of %d services %d had a turn", many, len(seen))
	}
}

// TestUnwatched: services beyond the bound, those that request least, are counted.
func TestUnwatched(t *testing.T) {
	t.Parallel()
	rules := DefaultRules()
	b := NewBook(&rules)
	var list []Reading
	for i := range MaxWatched + 3 {
		list = append(list, Reading{ID: fmt.Sprint(i), Watched: true, Request: float64(i + 1)})
	}
	b.choose(list, time.Unix(0, 0))
	if b.unwatched != 3 || len(b.services) != MaxWatched || b.services["2"] != nil {
		t.Errorf("%d are not watched, %d are", b.unwatched, len(b.services))
	}
	if b.choose(list[:2], time.Unix(1, 0)); b.unwatched != 0 {
		t.Errorf("%d are not watched of two", b.unwatched)
	}
}

// Where it is not known what a culprit uses, it is limited as soon as that is, and evicted only if that was in vain.
func TestCulpritOfUnknownUse(t *testing.T) {
	t.Parallel()
	rules := DefaultRules()
	b, now := NewBook(&rules), start
	none := math.NaN()
	pass := func(delay, use float64) (last *Decision) {
		now = now.Add(Length)
		return b.Step(now, []Reading{
			{ID: "web", Watched: true, Request: 2, Use: 1, Delay: delay, Pressure: none, Indicator: none, Cycles: none},
			{ID: "hog", Limitable: true, Evictable: true, Use: use, Bandwidth: none},
		})
	}
	for range 60 {
		pass(0.1, 0)
	}
	pass(3, 8)
	pass(3, 8)
	for i := range 10 {
		d := pass(3, none)
		if d.Evict != "" || len(d.Limits) > 0 {
			t.Fatalf("window %d: %+v", i, d)
		}
		if len(d.Findings) != 1 || d.Findings[0].Culprit != "hog" {
			t.Fatalf("window %d: %+v", i, d)
		}
	}
	for i := range 4 {
		d := pass(3, 8)
		if evicted := d.Evict == "hog"; len(d.Limits) != 1 || d.Limits[0].CPUs != 2 || evicted != (i == 3) {
			t.Errorf("window %d: %+v", i, d)
		}
	}
}

// A pod that comes with the harm and has gone again is not named for what stays.
func TestWhoHasGoneIsNotNamed(t *testing.T) {
	t.Parallel()
	for there, want := range map[float64]string{8: "hogfalse", -1: ""} {
		r := newRig(t)
		r.pass(60, 0.1, -1)
		r.pass(2, 3, 8)
		r.pass(1, 3, there)
		if got := r.named(); got != want || len(r.last.Findings) != 1 {
			t.Errorf("hog %g: %+v", there, r.last)
		}
	}
}
