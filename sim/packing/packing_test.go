package packing

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
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
		n := &cluster.Node{Name: fmt.Sprintf("n%d", i), GPU: topology.Shape{GPUs: 8, Model: "G2", Shareable: true}}
		cpu := int64(96_000)
		if i%4 == 0 {
			n.GPU, cpu = topology.Shape{GPUs: 2, Model: "T4", Shareable: true}, 104_000
		}
		n.Allocatable = []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: 512 << 30}}
		w.Nodes = append(w.Nodes, n)
	}
	var kinds []*cluster.Requirements
	for range 24 {
		r := &cluster.Requirements{}
		switch random.IntN(4) {
		case 0:
			r.GPU.Whole = int8(1 << random.IntN(4))
		case 1, 2:
			r.GPU.Milli = int16(50 + 10*random.IntN(90))
		}
		cpu := int64(500 + 500*random.IntN(24)*int(max(r.GPU.Whole, 1)))
		r.Requests = []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: 4 << 30}}
		if !r.GPU.IsZero() && random.IntN(5) == 0 {
			r.Required = []cluster.Term{{Expressions: []cluster.Requirement{{Key: spec.LabelGPUModel, Operator: cluster.In, Values: []string{"T4"}}}}}
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

// What is allocated and what is stranded make up the cluster.
func TestNothingIsLost(t *testing.T) {
	for _, policy := range Policies() {
		out := play(t, invent(40, 200, 3), 1, Options{Policy: policy, Params: fragment.Defaults()})
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

// Moves are bounded, and never cost anything.
func TestDefragment(t *testing.T) {
	w := invent(100, 1000, 5)
	o := Options{Policy: PolicyHilbert, Params: fragment.Defaults()}
	before := play(t, w, 1, o)
	o.Defragment = 0.02
	after := play(t, w, 1, o)
	if before.Moves != 0 || after.Moves == 0 || float64(after.Moves) > 0.02*float64(after.Placed) {
		t.Errorf("%d moves without, %d with, of %d pods", before.Moves, after.Moves, after.Placed)
	}
	if after.AtEnd <= before.AtEnd {
		t.Errorf("%.2f %% with moves, %.2f %% without", after.AtEnd, before.AtEnd)
	}
	if after.RefusedThoughFit != 0 {
		t.Errorf("%d pods were refused though they fit", after.RefusedThoughFit)
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
	r.Required = []cluster.Term{{Expressions: []cluster.Requirement{{Key: "zone", Operator: cluster.In, Values: []string{"a"}}}}}
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
	if n := strings.Count(page.String(), "<polyline"); n != len(Policies()) {
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
