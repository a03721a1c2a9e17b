package packing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// inventChurn is a list whose pods run for minutes, or now and then for days.
func inventChurn(t interface{ Fatal(...any) }, nodes, tasks int, seed uint64) *Steady {
	w := invent(nodes, tasks, seed)
	random := rand.New(rand.NewPCG(seed, 8))
	for i := range w.Tasks {
		minutes := 5 + random.Int64N(100)
		if random.IntN(6) == 0 {
			minutes *= 50
		}
		w.Tasks[i].Deleted = minutes * int64(time.Minute)
	}
	s, err := NewSteady(w, seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func churned(t interface{ Fatal(...any) }, s *Steady, o ChurnOptions) *ChurnOutcome {
	o.Params = fragment.Defaults()
	out, err := s.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func asJSON(t interface{ Fatal(...any) }, x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Whatever the policy, with moves and without: kept scores give what computing all of them gives, nobody is refused who fits, the same seed gives the same
// outcome, and what nodes have free and what pods hold add up at the end (Run panics otherwise).
func TestChurnIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := inventChurn(t, rapid.IntRange(2, 10).Draw(t, "nodes"), 30, rapid.Uint64().Draw(t, "seed"))
		o := ChurnOptions{
			Load: rapid.Float64Range(0.5, 1.2).Draw(t, "load"), Moves: rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "moves"),
			Warmup: 6 * time.Hour, Measured: 12 * time.Hour,
		}
		for _, o.Policy = range Policies() {
			o.exhaustive = false
			kept, again := churned(t, s, o), churned(t, s, o)
			o.exhaustive = true
			all := churned(t, s, o)
			if a, b := asJSON(t, kept), asJSON(t, all); a != b {
				t.Fatalf("%s: with kept scores\n%s\nwithout\n%s", o.Policy, a, b)
			}
			if a, b := asJSON(t, kept), asJSON(t, again); a != b {
				t.Fatalf("%s: two runs of one seed differ:\n%s\n%s", o.Policy, a, b)
			}
			if kept.RefusedThoughFit != 0 {
				t.Fatalf("%s: %d pods were refused though they fit", o.Policy, kept.RefusedThoughFit)
			}
		}
	})
}

// The load that is offered is the load that is asked for: where almost nobody is refused, it is what is allocated.
func TestChurnOffersItsLoad(t *testing.T) {
	s := inventChurn(t, 60, 200, 3)
	o := ChurnOptions{Policy: PolicyBestFit, Load: 0.4, Warmup: 4 * 24 * time.Hour, Measured: 60 * 24 * time.Hour}
	out := churned(t, s, o)
	if math.Abs(out.Allocated-40) > 1.5 || out.Served < 98 {
		t.Errorf("%.2f %% are allocated and %.2f %% served, want 40 and almost all", out.Allocated, out.Served)
	}
	// It begins in the steady state: the first day has what the others have.
	o.Warmup, o.Measured = 0, 24*time.Hour
	if first := churned(t, s, o); math.Abs(first.Allocated-40) > 6 {
		t.Errorf("%.2f %% are allocated on the first day, want about 40", first.Allocated)
	}
}

// Moves are within what is allowed for a day, and leave less that pods cannot use.
func TestChurnMoves(t *testing.T) {
	less := 0
	for seed := range uint64(4) {
		s := inventChurn(t, 40, 120, seed)
		o := ChurnOptions{Policy: PolicyHilbert, Load: 0.85, Warmup: 2 * 24 * time.Hour, Measured: 6 * 24 * time.Hour}
		without := churned(t, s, o)
		o.Moves = 0.2
		with := churned(t, s, o)
		if with.Moves == 0 || with.MovedPerDay > 21 {
			t.Errorf("seed %d: %.2f %% of the pods were moved in a day, want some and about 20 at most", seed, with.MovedPerDay)
		}
		if without.Moves != 0 {
			t.Errorf("seed %d: %d moves where none is allowed", seed, without.Moves)
		}
		if with.Fragmented < without.Fragmented {
			less++
		}
	}
	if less < 3 {
		t.Errorf("moves left less fragmented in %d of 4 seeds, want at least 3", less)
	}
}

// A pod stays for moveAge before its first move, and for moveAgain after one.
func TestChurnLeavesPodsAlone(t *testing.T) {
	m := &moves{c: &churn{now: int64(30 * time.Hour)}}
	hour := int64(time.Hour)
	for _, c := range []struct {
		began, moved int64
		may          bool
	}{{0, 0, true}, {28 * hour, 28 * hour, true}, {29 * hour, 29 * hour, false}, {0, 6 * hour, true}, {0, 7 * hour, false}} {
		if got := m.may(&tenant{began: c.began, moved: c.moved}); got != c.may {
			t.Errorf("a pod that began at %d h and was moved at %d h may move at 30 h: %v, want %v", c.began/hour, c.moved/hour, got, c.may)
		}
	}
}

// Whole GPUs stay together: where one list asks for single GPUs and for eight, those of eight find nodes when single ones come and go.
func TestChurnKeepsNodesWhole(t *testing.T) {
	w := invent(30, 1, 1)
	for i := range w.Nodes {
		w.Nodes[i].GPU = topology.Shape{GPUs: 8, Model: "G2", Shareable: true}
	}
	one, eight := *w.Tasks[0].Requirements, *w.Tasks[0].Requirements
	one.GPU, eight.GPU = topology.Request{Whole: 1}, topology.Request{Whole: 8}
	one.Required, eight.Required = nil, nil
	one.Requests, eight.Requests = []resource.Quantity{{Name: resource.NameCPU, Amount: 4000}}, []resource.Quantity{{Name: resource.NameCPU, Amount: 32_000}}
	task := w.Tasks[0]
	w.Tasks = nil
	for i := range 41 {
		task.Requirements, task.Deleted = &one, int64(1+i%7)*int64(time.Hour)
		if i == 40 {
			task.Requirements, task.Deleted = &eight, 8*int64(time.Hour)
		}
		w.Tasks = append(w.Tasks, task)
	}
	s, err := NewSteady(w, 1)
	if err != nil {
		t.Fatal(err)
	}
	out := churned(t, s, ChurnOptions{Policy: PolicyHilbert, Load: 0.7, Warmup: 24 * time.Hour, Measured: 10 * 24 * time.Hour})
	if out.Refused["several"] > out.Arrived/41/100 {
		t.Errorf("%d pods of eight GPUs found no room, of about %d", out.Refused["several"], out.Arrived/41)
	}
}

func TestWithDurations(t *testing.T) {
	from := invent(1, 4, 1)
	for i, gpu := range []topology.Request{{}, {Milli: 300}, {Whole: 1}, {Whole: 8}} {
		r := *from.Tasks[i].Requirements
		r.GPU = gpu
		from.Tasks[i].Requirements, from.Tasks[i].Created, from.Tasks[i].Deleted = &r, 100, 101+int64(i)
	}
	w := invent(1, 6, 2)
	for i, gpu := range []topology.Request{{}, {Milli: 700}, {Whole: 1}, {Whole: 8}, {Whole: 2}, {Whole: 1}} {
		r := *w.Tasks[i].Requirements
		r.GPU = gpu
		w.Tasks[i].Requirements = &r
	}
	w.Tasks[5].Created, w.Tasks[5].Deleted = 7, 77
	got, err := WithDurations(w, from, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 2, 3, 4, 0, 70} {
		d := got.Tasks[i].Deleted - got.Tasks[i].Created
		if drawn := want == 0 && d >= 1 && d <= 4; d != want && !drawn {
			t.Errorf("task %d runs for %d, want %d", i, d, want)
		}
	}
	if w.Tasks[0].Deleted != trace.Never {
		t.Error("the list itself was changed")
	}
	if _, err := WithDurations(w, nil, 1); !errors.Is(err, ErrNoDurations) {
		t.Errorf("without a list to draw from: %v", err)
	}
}

// What is measured is FGD's measure over the kinds that ask for GPUs, in percent of the cluster.
func TestGauge(t *testing.T) {
	a := &Arrivals{workload: &fragment.Mix{}, capacity: 4000}
	for _, r := range []fragment.Request{{GPU: topology.Request{Whole: 1}, CPU: 1000}, {GPU: topology.Request{Milli: 400}, CPU: 1000}, {CPU: 3000}, {CPU: 500}} {
		a.workload.Add(&r)
	}
	shape := topology.Shape{GPUs: 2, Model: "A", Shareable: true}
	a.nodes = []fragment.Node{{CPU: 4000, Memory: 10, Shape: shape, Free: topology.NewFree(shape)}, {CPU: 4000, Memory: 10, Shape: shape, Free: topology.NewFree(shape)}}
	g := newGauge(a, bindingGPU)
	nodes := []fragment.Node{a.nodes[0], a.nodes[1]}
	nodes[0].Free[0], nodes[0].CPU = 500, 2000
	p := g.read(nodes)
	// A whole one cannot use the 500; a part can use all. 1500 of 4000 are free on node 0, 2000 on node 1.
	if p.Allocated != 12.5 || p.Broken != 12.5 || math.Abs(p.Fragmented-100*0.5*500/4000) > 1e-9 || p.CPU != 25 || p.CPUFragmented != 100*0.5*2000/8000 {
		t.Errorf("%+v", p)
	}
}

func TestChurnResult(t *testing.T) {
	r := &ChurnResult{Workload: "w", Measured: 1}
	for i, policy := range []string{PolicyFGD, PolicyHilbert} {
		o := &ChurnOutcome{Policy: policy, Load: 95}
		for h := range 24 {
			o.add(ChurnPoint{Day: float64(h) / 24, Allocated: float64(90 + h/12 + i), Fragmented: float64(4 - i)})
		}
		o.finish(&ChurnOptions{Measured: 24 * time.Hour}, time.Second)
		r.Add(o)
	}
	r.Finish()
	// fgd was at 90 and 91, hilbert at 91 and 92: both only at 91.
	if len(r.Bands) != 3 || r.AtEqual[PolicyFGD] != 4 || r.AtEqual[PolicyHilbert] != 3 {
		t.Errorf("%+v %v", r.Bands, r.AtEqual)
	}
	var table, page bytes.Buffer
	if err := errors.Join(r.WriteTable(&table), r.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "at equal allocation, fragmented:  fgd 4.00  hilbert 3.00") || !strings.Contains(page.String(), "<svg") {
		t.Errorf("%s\n%s", table.String(), page.String())
	}
}

func TestChurnRefusesWhatItCannotPlay(t *testing.T) {
	w := invent(2, 3, 1)
	if _, err := NewSteady(w, 1); !errors.Is(err, ErrNoDurations) {
		t.Errorf("a list without times: %v", err)
	}
	s := inventChurn(t, 2, 30, 1)
	good := ChurnOptions{Policy: PolicyFGD, Load: 1, Measured: time.Hour}
	for _, change := range []func(*ChurnOptions){
		func(o *ChurnOptions) { o.Load = 0 }, func(o *ChurnOptions) { o.Load = math.NaN() }, func(o *ChurnOptions) { o.Load = MaxLoad + 1 },
		func(o *ChurnOptions) { o.Moves = -1 }, func(o *ChurnOptions) { o.Moves = math.NaN() }, func(o *ChurnOptions) { o.Measured = time.Minute },
		func(o *ChurnOptions) { o.Warmup = MaxChurn }, func(o *ChurnOptions) { o.Policy = "x" },
	} {
		o := good
		change(&o)
		if _, err := s.Run(o); err == nil {
			t.Errorf("%+v was played", o)
		}
	}
	stop := errors.New("stop")
	good.Tell = func(float64) error { return stop }
	good.Measured = 24 * time.Hour * 90
	if _, err := inventChurn(t, 60, 30, 1).Run(good); !errors.Is(err, stop) {
		t.Errorf("it went on: %v", err)
	}
}

// What no placement can help is a bound: at no time of a run, under no policy, is less fragmented than what pods of other models and sizes cannot use where it is free, nor is less of all that is free.
func TestExcludedIsABound(t *testing.T) {
	least := 1.0
	rapid.Check(t, func(t *rapid.T) {
		s := inventChurn(t, rapid.IntRange(2, 30).Draw(t, "nodes"), rapid.IntRange(10, 100).Draw(t, "tasks"), rapid.Uint64().Draw(t, "seed"))
		for i := range s.arrivals.kinds { // some are about one model, as in gpuspec33
			if model := s.arrivals.nodes[0].Shape.Model; i%3 == 0 && !s.arrivals.kinds[i].GPU.IsZero() {
				s.arrivals.kinds[i].Models = fragment.NewModels(model)
			}
		}
		out := churned(t, s, ChurnOptions{
			Policy: rapid.SampledFrom([]string{PolicyFGD, PolicyBestFit, PolicyHilbert}).Draw(t, "policy"), Load: 0.9, Moves: 0.02, Warmup: time.Hour, Measured: 24 * time.Hour,
		})
		for _, p := range out.Curve {
			if free := 100 - p.Allocated; p.Excluded > p.Fragmented+1e-9 || out.LeastOfFree*free/100 > p.Excluded+1e-9 {
				t.Fatalf("%.4f of %.4f free are fragmented, %.4f were excluded, and the least is %.4f %%", p.Fragmented, free, p.Excluded, out.LeastOfFree)
			}
			if p.Fragmented > 0 {
				least = min(least, 1-p.Excluded/p.Fragmented)
			}
		}
	})
	if least > 0.99 {
		t.Error("nothing was ever excluded")
	}
}

// The recorded list in short: below 10 percent of what is free is fragmented at 80 percent, and eight GPUs find a node at 95.
func TestChurnOpenB(t *testing.T) {
	folder := filepath.Join(os.Getenv("HILBERT_TRACES"), "openb")
	w, err := trace.LoadOpenB(filepath.Join(folder, "openb_node_list_gpu_node.csv"), filepath.Join(folder, "openb_pod_list_default.csv"))
	if err != nil {
		t.Skipf("no traces: set HILBERT_TRACES to the folder that holds openb/: %v", err)
	}
	s, err := NewSteady(w, FirstSeed)
	if err != nil {
		t.Fatal(err)
	}
	o := ChurnOptions{Policy: PolicyHilbert, Load: 0.8, Moves: 0.02, Warmup: 24 * time.Hour, Measured: 24 * time.Hour}
	if out := churned(t, s, o); out.OfFree >= 10 || out.MovedPerDay > 2.5 {
		t.Errorf("%.2f %% of the free is fragmented, want less than 10; %.2f %% moved in a day, want 2", out.OfFree, out.MovedPerDay)
	}
	o.Load, o.Moves = 0.95, 0
	if out := churned(t, s, o); out.Served < 98 {
		t.Errorf("%.2f %% were served at 95 %% load, want at least 98", out.Served)
	}
}

// Nodes and pods without GPUs alone: the load is of CPU or memory, kept scores are exact, and prices leave less that pods cannot use than the other policies do.
func TestChurnWithoutGPUs(t *testing.T) {
	w := invent(40, 1, 1)
	w.Tasks = w.Tasks[:0]
	for i := range w.Nodes {
		w.Nodes[i].GPU = topology.Shape{}
		w.Nodes[i].Allocatable = []resource.Quantity{{Name: resource.NameCPU, Amount: 32_000 * int64(1+i%3)}, {Name: resource.NameMemory, Amount: 1 << 40}}
	}
	for i, cpu := range []int64{8000, 8000, 8000, 12_500, 12_500, 32_000} {
		w.Tasks = append(w.Tasks, trace.Task{
			Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: 1 << 30}}},
			Deleted:      int64(1+i) * int64(time.Hour),
		})
	}
	s, err := NewSteady(WithoutGPUs(w), 3)
	if err != nil {
		t.Fatal(err)
	}
	if s.binding != bindingCPU {
		t.Errorf("the load is of resource %d, want of CPU", s.binding)
	}
	best := make(map[string]float64)
	for _, policy := range HostPolicies() {
		o := ChurnOptions{Policy: policy, Load: 0.95, Warmup: 24 * time.Hour, Measured: 4 * 24 * time.Hour}
		out := churned(t, s, o)
		o.exhaustive = true
		if a, b := asJSON(t, out), asJSON(t, churned(t, s, o)); a != b || out.RefusedThoughFit > 0 {
			t.Errorf("%s: with kept scores\n%s\nwithout\n%s", policy, a, b)
		}
		best[policy] = out.Allocated
	}
	for policy, allocated := range best {
		if policy != PolicyCPUWorth && allocated >= best[PolicyCPUWorth] {
			t.Errorf("%s allocates %.2f %%, %s %.2f", policy, allocated, PolicyCPUWorth, best[PolicyCPUWorth])
		}
	}
}

// All figures of a run are of the resource that its load is of. Here every pod asks for a GPU and for a CPU, and all nodes have as many CPUs as GPUs, so a load of CPU is one of GPUs by another name.
func TestFiguresAreOfTheBinding(t *testing.T) {
	w := &trace.Workload{}
	for i := range 20 {
		w.Nodes = append(w.Nodes, &facts.Node{Name: fmt.Sprint("n", i), GPU: topology.Shape{GPUs: 8, Model: []string{"A", "B"}[i%2], Shareable: true}, Allocatable: hostAmounts(8)})
	}
	for i, gpu := range []topology.Request{{Milli: 300}, {Milli: 600}, {Whole: 1}, {Whole: 4}} {
		r := &facts.Requirements{GPU: gpu, Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: gpu.Total()}, {Name: resource.NameMemory, Amount: gpu.Total() << 32 / 1000}}}
		if i == 2 {
			r.Required = []facts.Term{{Expressions: []facts.Requirement{{Key: spec.LabelGPUModel, Operator: facts.In, Values: []string{"A"}}}}}
		}
		w.Tasks = append(w.Tasks, trace.Task{Requirements: r, Deleted: int64(3+9*i) * int64(time.Hour)})
	}
	var figures []*ChurnOutcome
	for _, of := range []binding{bindingGPU, bindingCPU, bindingMemory} {
		s, err := NewSteady(w, 2)
		if err != nil {
			t.Fatal(err)
		}
		s.binding, s.arrivals.capacity = of, of.capacity(s.arrivals.nodes)
		figures = append(figures, churned(t, s, ChurnOptions{Policy: PolicyHilbert, Load: 0.7, Moves: 0.5, Warmup: 24 * time.Hour, Measured: 10 * 24 * time.Hour}))
	}
	gpus := figures[0]
	if gpus.Interrupted == 0 || gpus.Excluded == 0 {
		t.Errorf("nothing was interrupted or excluded: %s", asJSON(t, gpus))
	}
	for _, other := range figures[1:] {
		if math.Abs(other.Interrupted-gpus.Interrupted) > 1e-6 || math.Abs(other.Allocated-gpus.Allocated) > 1e-6 || math.Abs(other.Served-gpus.Served) > 1e-6 || other.Excluded != 0 || other.LeastOfFree != 0 {
			t.Errorf("of GPUs %s\nof another %s", asJSON(t, gpus), asJSON(t, other))
		}
	}
}

// Whatever sizes nodes and pods have: on nodes without GPUs kept scores give what computing all of them gives. A large node that is half full has as much free as a small one that is empty, and
// is not the same to a policy that goes by shares.
func TestHostScoresAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &trace.Workload{}
		for i := range rapid.IntRange(2, 8).Draw(t, "nodes") {
			size := int64(rapid.IntRange(1, 3).Draw(t, "size"))
			w.Nodes = append(w.Nodes, &facts.Node{Name: fmt.Sprint("n", i), Allocatable: hostAmounts(size * 32)})
		}
		for i := range rapid.IntRange(2, 6).Draw(t, "kinds") {
			w.Tasks = append(w.Tasks, trace.Task{
				Requirements: &facts.Requirements{Requests: hostAmounts(rapid.SampledFrom([]int64{4, 8, 16, 24, 32}).Draw(t, "asks"))}, Deleted: int64(1+i) * int64(time.Hour),
			})
		}
		s, err := NewSteady(w, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range HostPolicies() {
			o := ChurnOptions{Policy: policy, Load: 0.8, Warmup: 12 * time.Hour, Measured: 24 * time.Hour}
			kept := churned(t, s, o)
			o.exhaustive = true
			if a, b := asJSON(t, kept), asJSON(t, churned(t, s, o)); a != b {
				t.Fatalf("%s: with kept scores\n%s\nwithout\n%s", policy, a, b)
			}
		}
	})
}

// hostAmounts are CPUs with 4 GiB of memory each.
func hostAmounts(cpus int64) []resource.Quantity {
	return []resource.Quantity{{Name: resource.NameCPU, Amount: cpus * 1000}, {Name: resource.NameMemory, Amount: cpus << 32}}
}

// Loads are of GPUs where there are any, and of what is scarcest if that is asked for.
func TestBindScarcest(t *testing.T) {
	w := invent(10, 20, 1)
	for i := range w.Tasks {
		w.Tasks[i].Deleted = int64(time.Hour)
		r := *w.Tasks[i].Requirements
		r.Requests = []resource.Quantity{{Name: resource.NameCPU, Amount: 90_000}}
		w.Tasks[i].Requirements = &r
	}
	s, err := NewSteady(w, 1)
	if err != nil {
		t.Fatal(err)
	}
	if gpus := s.arrivals.capacity; s.binding != bindingGPU || gpus != bindingGPU.capacity(s.arrivals.nodes) {
		t.Errorf("the load is of resource %d, %d of it", s.binding, gpus)
	}
	if s.BindScarcest(); s.binding != bindingCPU || s.arrivals.capacity != bindingCPU.capacity(s.arrivals.nodes) {
		t.Errorf("of what is scarcest the load is of resource %d, %d of it", s.binding, s.arrivals.capacity)
	}
}
