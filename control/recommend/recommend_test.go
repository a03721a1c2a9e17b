package recommend

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

var start = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

// bench is what a transcript talks about: one workload, whose pods do what they are told.
type bench struct {
	now     time.Time
	view    View
	profile *Profile
}

func newBench() *bench {
	p, r := DefaultParams(), DefaultRolloutParams()
	return &bench{now: start, view: View{Budget: 1, Params: &r, Follow: &p}, profile: NewProfile(&p)}
}

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "transcripts"), func(t *testing.T, path string) {
		b := newBench()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return b.run(t, d) })
	})
}

// run carries out a command: use, oom, workload, pod, decide, recommend.
func (b *bench) run(t *testing.T, d *datadriven.TestData) string {
	arg := func(name string, to any) bool {
		if !d.HasArg(name) {
			return false
		}
		d.ScanArgs(t, name, to)
		return true
	}
	number := func(name string, to *float64) {
		var text string
		if arg(name, &text) {
			if _, err := fmt.Sscan(text, to); err != nil {
				t.Fatalf("%s: %s=%s: %v", d.Pos, name, text, err)
			}
		}
	}
	switch d.Cmd {
	case "use": // cpu= to= and memory= MiB for hours=, each five minutes
		var cpu, to, memory, hours float64
		number("cpu", &cpu)
		to = cpu
		number("to", &to)
		number("memory", &memory)
		number("hours", &hours)
		n := int(hours * 12)
		for i := range n {
			b.now = b.now.Add(5 * time.Minute)
			b.profile.See(Sample{CPU: cpu + (to-cpu)*float64(i%12)/11, Memory: memory * (1 << 20)}, b.now)
		}
		return ""
	case "oom":
		var memory float64
		number("memory", &memory)
		b.profile.RanOut(memory*(1<<20), b.now)
		return ""
	case "wait":
		var hours float64
		number("hours", &hours)
		passed := time.Duration(hours * float64(time.Hour))
		b.now = b.now.Add(passed)
		for i := range b.view.Workloads {
			for k := range b.view.Workloads[i].Pods {
				b.view.Workloads[i].Pods[k].Unchanged += passed
			}
		}
		return ""
	case "recommend":
		r, known := b.profile.Recommend(b.policy(), b.now)
		if !known {
			return "unknown: " + strings.Join(r.Reasons, "; ") + "\n"
		}
		return fmt.Sprintf("target %s, stays from %s to %s, memory not below %s, confidence %.2f\n%s\n", words(r.Target), words(r.Lower), words(r.Upper),
			bytesInWords(r.MemoryLeast), r.Confidence, strings.Join(r.Reasons, "\n"))
	case "workload":
		w := Workload{Name: "web"}
		var mode string
		arg("mode", &mode)
		w.Mode = Mode(mode)
		number("baseline", &w.Baseline)
		var pods, cpu, memory float64
		number("pods", &pods)
		number("cpu", &cpu)
		number("memory", &memory)
		for i := range int(pods) {
			w.Pods = append(w.Pods, Pod{Name: fmt.Sprintf("web-%d", i), Created: start.Add(time.Duration(i) * time.Minute), Has: Amounts{cpu, memory * (1 << 20)}, Unchanged: 24 * time.Hour})
		}
		b.view.Workloads = []Workload{w}
		return ""
	case "policy":
		var p Policy
		number("max-cpu", &p.Max.CPU)
		var memory float64
		number("max-memory", &memory)
		p.Max.Memory = memory * (1 << 20)
		p.KeepCPU = d.HasArg("keep-cpu")
		b.view.Workloads[0].Policy = &p
		return ""
	case "pod":
		b.pod(t, d, number)
		return ""
	case "budget":
		d.ScanArgs(t, "is", &b.view.Budget)
		return ""
	case "decide":
		return b.decide(d.HasArg("deaf"))
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func (b *bench) policy() *Policy {
	if len(b.view.Workloads) == 0 {
		return nil
	}
	return b.view.Workloads[0].Policy
}

func (b *bench) pod(t *testing.T, d *datadriven.TestData, number func(string, *float64)) {
	for i := range b.view.Workloads[0].Pods {
		p := &b.view.Workloads[0].Pods[i]
		if p.Name != d.CmdArgs[0].Key {
			continue
		}
		number("throttled", &p.Throttled)
		if d.HasArg("ran-out") {
			d.ScanArgs(t, "ran-out", &p.RanOut)
		}
		if d.HasArg("resize") {
			var text string
			d.ScanArgs(t, "resize", &text)
			p.Resize = Resize(strings.ReplaceAll(text, "none", ""))
		}
		p.Restarts = p.Restarts || d.HasArg("restarts")
	}
}

// decide decides, and does what is decided unless the pods are deaf.
func (b *bench) decide(deaf bool) string {
	w := &b.view.Workloads[0]
	w.Recommendation, w.Known = b.profile.Recommend(w.Policy, b.now)
	var out strings.Builder
	for _, a := range Decide(&b.view, b.now) {
		fmt.Fprintf(&out, "%s", a.Kind)
		if a.Pod != "" {
			fmt.Fprintf(&out, " %s", a.Pod)
		}
		if a.To != (Amounts{}) {
			fmt.Fprintf(&out, " to %s", words(a.To))
		}
		if a.Reserve != (Amounts{}) {
			fmt.Fprintf(&out, " (reserve %s)", words(a.Reserve))
		}
		fmt.Fprintf(&out, ": %s\n", a.Reason)
		if !deaf {
			w.obey(&a, b.now)
		}
	}
	return out.String()
}

// obey does at once what an action says.
func (w *Workload) obey(a *Action, now time.Time) {
	if a.Kind == Advance {
		w.Rollout = *a.Rollout
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		if p.Name != a.Pod {
			continue
		}
		switch a.Kind {
		case ToResize:
			p.Has, p.RanOut, p.Throttled, p.Unchanged = a.To, 0, 0, 0
		case ToEvict:
			*p = Pod{Name: p.Name + "x", Created: now, Has: a.To}
		case Publish, Advance, Wait:
		}
	}
}

func words(a Amounts) string { return fmt.Sprintf("%.2f cores %s", a.CPU, bytesInWords(a.Memory)) }

// TestDecideHolds holds what Decide promises to views drawn at random, over several calls in a row.
func TestDecideHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, r := DefaultParams(), DefaultRolloutParams()
		v := View{Budget: rapid.IntRange(0, 3).Draw(t, "budget"), Params: &r, Follow: &p}
		amounts := func(name string) Amounts {
			return Amounts{rapid.Float64Range(0.05, 4).Draw(t, name), rapid.Float64Range(1<<28, 1<<33).Draw(t, name)}
		}
		w := Workload{
			Name: "web", Mode: rapid.SampledFrom([]Mode{ModeOff, ModeInitial, ModeInPlace, ModeRecreate}).Draw(t, "mode"), Known: true,
			Baseline: rapid.SampledFrom([]float64{0, 0.2, 1}).Draw(t, "baseline"),
		}
		n := rapid.IntRange(0, 8).Draw(t, "pods")
		for i := range n {
			w.Pods = append(w.Pods, Pod{
				Name: fmt.Sprint("p", i), Created: start.Add(time.Duration(i) * time.Second), Has: amounts("has"), Unchanged: 12 * time.Hour,
				Restarts: rapid.Bool().Draw(t, "restarts"),
			})
		}
		v.Workloads = []Workload{w}
		now := start.Add(time.Hour)
		for range 12 {
			w := &v.Workloads[0]
			target := amounts("target")
			w.Recommendation = Recommendation{Target: target, MemoryLeast: target.Memory * rapid.Float64Range(0.5, 1.5).Draw(t, "least"), Confidence: rapid.Float64Range(0, 1).Draw(t, "confidence")}
			for i := range w.Pods {
				w.Pods[i].RanOut = rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "ran out")
				w.Pods[i].Throttled = rapid.SampledFrom([]float64{0, 0.2, math.NaN()}).Draw(t, "throttled")
				w.Pods[i].Resize = rapid.SampledFrom([]Resize{ResizeNone, ResizeNone, ResizeNone, ResizeDeferred, ResizeInfeasible, ResizeInProgress}).Draw(t, "resize")
			}
			actions := Decide(&v, now)
			if again := Decide(&v, now); fmt.Sprintf("%+v", stored(actions)) != fmt.Sprintf("%+v", stored(again)) {
				t.Fatalf("two calls, two answers:\n%+v\n%+v", actions, again)
			}
			hold(t, &v, w, actions)
			for i := range actions {
				w.obey(&actions[i], now)
			}
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Minute, 2 * time.Hour, 48 * time.Hour}).Draw(t, "passes"))
		}
	})
}

// stored is the actions with what their pointers point to.
func stored(actions []Action) (list []any) {
	for _, a := range actions {
		if a.Rollout != nil {
			list = append(list, *a.Rollout)
		}
		a.Rollout = nil
		list = append(list, a)
	}
	return list
}

func hold(t *rapid.T, v *View, w *Workload, actions []Action) {
	disturbed, seen := 0, map[string]bool{}
	control := 0
	if w.Baseline > 0 {
		control = min(int(math.Ceil(w.Baseline*float64(len(w.Pods)))), len(w.Pods)-1)
	}
	byAge := slices.Clone(w.Pods)
	slices.SortFunc(byAge, func(a, b Pod) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, a := range actions {
		if a.Reason == "" {
			t.Fatalf("%+v has no reason", a)
		}
		if a.Kind != ToResize && a.Kind != ToEvict {
			continue
		}
		if w.Mode != ModeInPlace && w.Mode != ModeRecreate {
			t.Fatalf("mode %s changes pod %s", w.Mode, a.Pod)
		}
		if seen[a.Pod] {
			t.Fatalf("pod %s is changed twice", a.Pod)
		}
		seen[a.Pod] = true
		if control > 0 && slices.ContainsFunc(byAge[:control], func(p Pod) bool { return p.Name == a.Pod }) {
			t.Fatalf("pod %s of the control group is changed", a.Pod)
		}
		at := slices.IndexFunc(w.Pods, func(p Pod) bool { return p.Name == a.Pod })
		p := &w.Pods[at]
		if a.To.Memory < p.Has.Memory && a.To.Memory < w.Recommendation.MemoryLeast {
			t.Fatalf("pod %s shrinks to %g, below %g", a.Pod, a.To.Memory, w.Recommendation.MemoryLeast)
		}
		if want := (Amounts{max(a.To.CPU-p.Has.CPU, 0), max(a.To.Memory-p.Has.Memory, 0)}); a.Reserve != want {
			t.Fatalf("pod %s reserves %+v, want %+v", a.Pod, a.Reserve, want)
		}
		if a.Kind == ToEvict || p.Restarts && a.To.Memory != p.Has.Memory {
			disturbed++
		}
	}
	if disturbed > v.Budget {
		t.Fatalf("%d pods are disturbed, the budget is %d", disturbed, v.Budget)
	}
}

// TestProfileHolds: a target is never below the floor or the highest peak of today and yesterday, and what is no number changes nothing.
func TestProfileHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams()
		p.MemoryPercentile = rapid.SampledFrom([]float64{0.5, 0.9}).Draw(t, "percentile")
		f, clean := NewProfile(&p), NewProfile(&p)
		now, peaks := start, map[int64]float64{}
		for i := range rapid.IntRange(2, 60).Draw(t, "samples") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 30, 600}).Draw(t, "minutes")) * time.Minute)
			s := Sample{rapid.Float64Range(0, 64).Draw(t, "cpu"), rapid.Float64Range(0, 1<<36).Draw(t, "memory")}
			peaks[dayOf(now)] = max(peaks[dayOf(now)], s.Memory)
			f.See(s, now)
			clean.See(s, now)
			if i%3 == 0 {
				f.See(Sample{math.NaN(), math.Inf(1)}, now)
				f.See(Sample{-1, -1}, now)
				f.See(Sample{1e6, 1e15}, now.Add(-48*time.Hour))
			}
		}
		peak := max(peaks[dayOf(now)], peaks[dayOf(now)-1])
		r, known := f.Recommend(nil, now)
		q, _ := clean.Recommend(nil, now)
		if !known || r.Target != q.Target {
			t.Fatalf("bad samples count: %+v, without them %+v", r, q)
		}
		if r.Target.CPU < p.Floor.CPU || r.Target.Memory < p.Floor.Memory || r.MemoryLeast < peak*(1+p.MemoryMargin)*(1-1e-9) {
			t.Fatalf("peak %g: %+v", peak, r)
		}
		if r.Confidence < 0 || r.Confidence > 1 || r.Lower.CPU > r.Target.CPU || r.Upper.CPU < r.Target.CPU || r.Upper.Memory < r.Target.Memory {
			t.Fatalf("%+v", r)
		}
	})
}

// TestParamsAreChecked breaks each parameter.
func TestParamsAreChecked(t *testing.T) {
	good := DefaultParams()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(*Params){
		func(p *Params) { p.HalfLives = nil }, func(p *Params) { p.HalfLives = []time.Duration{0} }, func(p *Params) { p.Percentiles = []float64{1.1} },
		func(p *Params) { p.Margins = []float64{-1} }, func(p *Params) { p.First[1] = 9 }, func(p *Params) { p.Every = 0 },
		func(p *Params) { p.CostHalfLife = 0 }, func(p *Params) { p.Shortage = 0 }, func(p *Params) { p.GrowBy = -1 },
		func(p *Params) { p.MemoryPercentile = 0 }, func(p *Params) { p.MemoryMargin = 0 }, func(p *Params) { p.OOMFactor = 0.9 },
		func(p *Params) { p.Floor.CPU = math.NaN() }, func(p *Params) { p.CPUScale.Growth = 1 }, func(p *Params) { p.NewPodsEvery = 0 },
	} {
		p := DefaultParams()
		spoil(&p)
		if err := p.Validate(); err == nil {
			t.Errorf("spoiled parameters %d are accepted", i)
		}
	}
}
