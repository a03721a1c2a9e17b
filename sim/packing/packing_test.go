package packing

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// invent makes a cluster of nodes of two models and a list of tasks that ask for slices, whole GPUs and CPU.
func invent(nodes, tasks int, seed uint64) *trace.Workload {
	random := rand.New(rand.NewPCG(seed, 7))
	w := &trace.Workload{}
	for i := range nodes {
		n := &facts.Node{Name: fmt.Sprintf("n%d", i), GPU: topology.Shape{GPUs: 8, Model: "G2", Shareable: true}}
		cpu := int64(96_000)
		if i%4 == 0 {
			n.GPU, cpu = topology.Shape{GPUs: 2, Model: "T4", Shareable: true}, 104_000
		}
		n.Allocatable = []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: 512 << 30}}
		w.Nodes = append(w.Nodes, n)
	}
	var kinds []*facts.Requirements
	for range 24 {
		r := &facts.Requirements{}
		switch random.IntN(4) {
		case 0:
			r.GPU.Whole = int8(1 << random.IntN(4))
		case 1, 2:
			r.GPU.Milli = int16(50 + 10*random.IntN(90))
		}
		cpu := int64(500 + 500*random.IntN(24)*int(max(r.GPU.Whole, 1)))
		r.Requests = []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: 4 << 30}}
		if !r.GPU.IsZero() && random.IntN(5) == 0 {
			r.Required = []facts.Term{{Expressions: []facts.Requirement{{Key: spec.LabelGPUModel, Operator: facts.In, Values: []string{"T4"}}}}}
		}
		kinds = append(kinds, r)
	}
	kinds[0].GPU = topology.Request{Whole: 1}
	for i := range tasks {
		w.Tasks = append(w.Tasks, trace.Task{Name: fmt.Sprintf("t%d", i), Requirements: kinds[random.IntN(len(kinds))], Deleted: trace.Never})
	}
	return w
}

func play(t interface{ Fatal(...any) }, w *trace.Workload, seed uint64, o Options) *Outcome {
	a, err := NewArrivals(w, Ratio, seed)
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Keeping scores gives what computing all of them for every pod gives, whatever the policy, and no refusal is wrong.
func TestKeptScoresAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := invent(rapid.IntRange(1, 12).Draw(t, "nodes"), 30, rapid.Uint64().Draw(t, "workload"))
		seed := rapid.Uint64().Draw(t, "seed")
		for _, policy := range Policies() {
			o := Options{Policy: policy, Params: fragment.Defaults()}
			kept := play(t, w, seed, o)
			o.Exhaustive = true
			all := play(t, w, seed, o)
			if kept.AtEnd != all.AtEnd || kept.Placed != all.Placed || kept.At100 != all.At100 || fmt.Sprint(kept.Curve) != fmt.Sprint(all.Curve) {
				t.Fatalf("%s: %+v with kept scores, %+v without", policy, kept, all)
			}
			if kept.RefusedThoughFit != 0 {
				t.Fatalf("%s: %d pods were refused though they fit", policy, kept.RefusedThoughFit)
			}
		}
	})
}

// asked counts for which nodes a policy is asked.
type asked struct {
	policy
	times []int
}

func (p *asked) score(node int, kind int32) (float64, int, bool) {
	p.times[node]++
	return p.policy.score(node, kind)
}

// Of nodes that look alike one is scored, also after some have changed and changed back.
func TestLooksShareAScore(t *testing.T) {
	a, err := NewArrivals(invent(12, 1, 1), Ratio, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.nodes {
		a.nodes[i] = a.nodes[0]
	}
	a.nodes[7].CPU--
	r, err := newRun(a, &Options{Policy: PolicyHilbert, Params: fragment.Defaults()})
	if err != nil {
		t.Fatal(err)
	}
	p := &asked{policy: r.policy, times: make([]int, len(a.nodes))}
	r.policy = p
	r.rank(0)
	want := []int{1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
	if !slices.Equal(p.times, want) {
		t.Errorf("asked %v times for the nodes, want %v", p.times, want)
	}
	change := func(cpu int64) {
		before := r.nodes[3]
		r.nodes[3].CPU = cpu
		r.touch(3, &before)
	}
	for i := range int64(1000) {
		change(i)
	}
	if n := r.looks.count(); n != 3 {
		t.Errorf("%d looks, want 3: those of nodes 0, 7 and 3", n)
	}
	change(r.nodes[7].CPU)
	r.rank(0) // after so many changes, all looks
	want[0]++
	want[3]++ // the first of two
	change(r.nodes[0].CPU)
	r.rank(0) // nothing looks new
	if !slices.Equal(p.times, want) {
		t.Errorf("asked %v times for the nodes, want %v", p.times, want)
	}
}

// Prices are found as often when the mix has begun to fade as before.
func TestPricesFollowForEver(t *testing.T) {
	a := &Arrivals{kinds: []fragment.Request{{GPU: topology.Request{Whole: 1}}}}
	h := newHilbert(a, nil, fragment.Defaults())
	latest := -1
	for i := range 3 * fragment.MaxSeen {
		if h.see(0) {
			latest = i
		} else if i-latest > firstLearn {
			t.Fatalf("no prices were found after arrival %d, %d have come since", latest, i-latest)
		}
	}
}

// What is allocated and what is stranded make up the cluster.
func TestNothingIsLost(t *testing.T) {
	for i, policy := range append(Policies(), PolicyHilbert) {
		out := play(t, invent(40, 200, 3), 1, Options{Policy: policy, Params: fragment.Defaults(), Defragment: float64(i/len(Policies())) / 10})
		sum := out.AtEnd
		for _, x := range out.Stranded {
			sum += x
		}
		if sum < 99.999 || sum > 100.001 {
			t.Errorf("%s: allocated and stranded are %.4f %%", policy, sum)
		}
		if out.Placed+out.Refused != out.Pods {
			t.Errorf("%s: %d placed and %d refused of %d", policy, out.Placed, out.Refused, out.Pods)
		}
	}
}

// On invented mixes our policy allocates more than FGD, which knows the mix beforehand.
func TestPricesBeatTheGradient(t *testing.T) {
	total := 0.0
	for seed := range uint64(4) {
		res := &Result{Seeds: 1}
		outcomes, err := Play(invent(150, 2000, 100+seed), FirstSeed, []string{PolicyFGD, PolicyHilbert}, Options{Params: fragment.Defaults()})
		if err != nil {
			t.Fatal(err)
		}
		res.Add("invented", outcomes)
		res.Finish()
		t.Logf("mix %d: fgd %.2f, hilbert %.2f", seed, res.Summaries[0].AtEnd, res.Summaries[1].AtEnd)
		total += res.MeanGain[PolicyHilbert]
	}
	if total/4 < 0.5 {
		t.Errorf("the mean gain is %.2f points, want at least 0.5", total/4)
	}
}

// Moves are bounded, let no refusal be wrong, and on the whole win something, which no run by itself must.
func TestDefragment(t *testing.T) {
	gain := 0.0
	for seed := range uint64(4) {
		w := invent(100, 1000, 6+seed)
		o := Options{Policy: PolicyHilbert, Params: fragment.Defaults()}
		before := play(t, w, 1, o)
		o.Defragment = 0.02
		outcomes, err := Play(w, 1, []string{PolicyHilbert}, o)
		if err != nil {
			t.Fatal(err)
		}
		after := outcomes[0]
		if before.Moves != 0 || after.Moves == 0 || float64(after.Moves) > 0.02*float64(after.Placed) {
			t.Errorf("mix %d: %d moves without, %d with, of %d pods", seed, before.Moves, after.Moves, after.Placed)
		}
		if before.AtEnd > after.Bound || after.AtEnd > after.Bound {
			t.Errorf("mix %d: %.2f %% with moves, %.2f %% without, above the bound of %.2f %%", seed, after.AtEnd, before.AtEnd, after.Bound)
		}
		if after.RefusedThoughFit != 0 {
			t.Errorf("mix %d: %d pods were refused though they fit", seed, after.RefusedThoughFit)
		}
		gain += after.AtEnd - before.AtEnd
	}
	if gain/4 < 0.5 {
		t.Errorf("the mean gain is %.2f points, want at least 0.5", gain/4)
	}
}

// What moves win is counted against the same seed without moves.
func TestMovesArePaired(t *testing.T) {
	w := invent(60, 600, 6)
	res := &Result{Defragment: 5}
	for seed := range uint64(2) {
		o := Options{Params: fragment.Defaults()}
		unmoved := play(t, w, seed, Options{Policy: PolicyHilbert, Params: o.Params})
		o.Defragment = 0.05
		outcomes, err := Play(w, seed, []string{PolicyHilbert}, o)
		if err != nil {
			t.Fatal(err)
		}
		if outcomes[0].Unmoved != unmoved.AtEnd {
			t.Errorf("seed %d: %.3f %% without moves, want %.3f", seed, outcomes[0].Unmoved, unmoved.AtEnd)
		}
		res.Add("invented", outcomes)
	}
	res.Finish()
	s := res.Summaries[0]
	a, b := s.Runs[0], s.Runs[1]
	want := (a.AtEnd - a.Unmoved + b.AtEnd - b.Unmoved) / 2
	if m := s.ByMoves; math.Abs(m.Gain-want) > 1e-9 || m.LeastGain > want || m.BoundGain < want || m.Percent <= 0 || m.Most > 5 {
		t.Errorf("%+v, want a gain of %.3f", *m, want)
	}
	var table bytes.Buffer
	if err := res.WriteTable(&table); err != nil || !strings.Contains(table.String(), " % moved: ") {
		t.Errorf("%v:\n%s", err, &table)
	}
}

// Before anything is refused pods move to where they are better, under a policy that knows what a node is worth.
func TestPodsMoveToWhereTheyAreBetter(t *testing.T) {
	w := invent(100, 1000, 8)
	for i := range w.Tasks {
		r := *w.Tasks[i].Requirements
		r.GPU.Whole, r.Required, r.Requests = min(r.GPU.Whole, 1), nil, nil
		w.Tasks[i].Requirements = &r
	}
	a, err := NewArrivals(w, 0.9, 1)
	if err != nil {
		t.Fatal(err)
	}
	moves := make(map[string]int)
	for _, policy := range Policies() {
		out, err := a.Run(Options{Policy: policy, Params: fragment.Defaults(), Defragment: 0.02})
		if err != nil {
			t.Fatal(err)
		}
		if out.Refused > 0 {
			t.Errorf("%s: %d pods are refused", policy, out.Refused)
		}
		moves[policy] = out.Moves
	}
	if moves[PolicyHilbert] == 0 || moves[PolicyFGD] != 0 || moves[PolicyBestFit] != 0 {
		t.Errorf("moves by policy: %v", moves)
	}
}

func TestRefusalsOfInput(t *testing.T) {
	w := invent(4, 10, 1)
	if _, err := Play(w, 1, []string{"guess"}, Options{}); err == nil || !strings.Contains(err.Error(), "guess") {
		t.Errorf("an unknown policy: %v", err)
	}
	if _, err := NewArrivals(&trace.Workload{}, Ratio, 1); !errors.Is(err, trace.ErrNoGPUs) {
		t.Errorf("no nodes: %v", err)
	}
	r := *w.Tasks[0].Requirements
	r.Required = []facts.Term{{Expressions: []facts.Requirement{{Key: "zone", Operator: facts.In, Values: []string{"a"}}}}}
	w.Tasks[0].Requirements = &r
	if _, err := NewArrivals(w, Ratio, 1); err == nil {
		t.Error("an affinity to zones is ignored in silence")
	}
}

// A variant is another mix of the same length, the same for the same seed, and leaves the workload alone.
func TestVary(t *testing.T) {
	w := invent(4, 500, 9)
	sizes := func(w *trace.Workload) map[topology.Request]int {
		count := make(map[topology.Request]int)
		for i := range w.Tasks {
			count[w.Tasks[i].Requirements.GPU]++
		}
		return count
	}
	before := fmt.Sprint(sizes(w))
	even, odd := Vary(w, 2), Vary(w, 3)
	if fmt.Sprint(sizes(w)) != before {
		t.Error("the workload has changed")
	}
	if len(even.Tasks) != len(w.Tasks) || fmt.Sprint(sizes(even)) == before || fmt.Sprint(sizes(Vary(w, 2))) != fmt.Sprint(sizes(even)) {
		t.Error("the variant is the workload, or not the same twice")
	}
	for size := range sizes(even) {
		if sizes(w)[size] == 0 {
			t.Errorf("an even variant has the new size %v", size)
		}
	}
	strange := 0
	for size := range sizes(odd) {
		if sizes(w)[size] == 0 {
			strange++
		}
	}
	if strange == 0 {
		t.Error("an odd variant has no new size")
	}
}

func TestReport(t *testing.T) {
	res := &Result{Seeds: 2}
	for seed := range uint64(2) {
		outcomes, err := Play(invent(30, 100, 2), seed, Policies(), Options{Params: fragment.Defaults()})
		if err != nil {
			t.Fatal(err)
		}
		res.Add("default", outcomes)
	}
	res.Finish()
	var table, page bytes.Buffer
	if err := errors.Join(res.WriteTable(&table), res.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"95.23/95.39", "hilbert: mean gain over fgd"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
	if n := strings.Count(page.String(), "<path"); n != len(Policies()) {
		t.Errorf("the page has %d curves, want %d", n, len(Policies()))
	}
}

// BenchmarkPlacement is 20,000 nodes of 8 GPUs under slices and whole GPUs; an iteration is one placement, in an empty cluster that fills.
func BenchmarkPlacement(b *testing.B) {
	w := invent(20_000, 4000, 11)
	for _, n := range w.Nodes {
		n.GPU = topology.Shape{GPUs: 8, Model: "G2", Shareable: true}
	}
	for i := range w.Tasks {
		r := *w.Tasks[i].Requirements
		r.Required = nil
		w.Tasks[i].Requirements = &r
	}
	a, err := NewArrivals(w, Ratio, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for placed := 0; placed < b.N; {
		some := *a
		some.pods = some.pods[:min(len(some.pods), b.N-placed)]
		out, err := some.Run(Options{Policy: PolicyHilbert, Params: fragment.Defaults()})
		if err != nil {
			b.Fatal(err)
		}
		placed += out.Pods
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "placements/s")
}

// What is wanted is what runs, and as much more as was turned away lately.
func TestWantedCountsThoseTurnedAway(t *testing.T) {
	a := &Arrivals{kinds: []fragment.Request{{GPU: topology.Request{Whole: 1}, Models: fragment.NewModels("A")}, {GPU: topology.Request{Milli: 500}}}}
	h := newHilbert(a, nil, fragment.Defaults())
	for i := range 40 {
		h.answered(0, i%4 == 0)
		h.answered(1, true)
		h.holds(1, 1)
	}
	h.holds(0, 10)
	h.holds(1, -30)
	var want fragment.Demand
	want.Add(&a.kinds[0], 40)
	want.Add(&a.kinds[1], 10)
	if got := h.wanted(); !reflect.DeepEqual(got, &want) {
		t.Errorf("wanted %+v, want %+v", got, &want)
	}
	for range 10 * tallied { // what was long ago counts less and less
		h.answered(0, true)
	}
	want.Add(&a.kinds[0], -30)
	if got := h.wanted(); !reflect.DeepEqual(got, &want) {
		t.Errorf("wanted %+v, want %+v", got, &want)
	}
}

// A run tells the policy which pods run.
func TestRunsTellWhatIsHeld(t *testing.T) {
	a, err := NewArrivals(invent(12, 40, 3), Ratio, 3)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(a, &Options{Policy: PolicyHilbert, Params: fragment.Defaults()})
	if err != nil {
		t.Fatal(err)
	}
	h := r.policy.(*hilbert)
	for _, kind := range a.pods {
		if node, gpu, ok := r.choose(kind); ok {
			grant := r.place(node, kind, gpu)
			if h.held[kind] != 1 {
				t.Fatalf("%d pods are held, want 1", h.held[kind])
			}
			r.release(node, kind, grant)
		}
		if h.held[kind] != 0 {
			t.Fatalf("%d pods are held, want none", h.held[kind])
		}
	}
}
