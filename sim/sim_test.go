package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

func invent(t *testing.T, text string, seed uint64) *trace.Workload {
	t.Helper()
	s, err := trace.ParseSynthetic(text)
	if err != nil {
		t.Fatal(err)
	}
	return s.Generate(seed)
}

func options(seed uint64) Options {
	return Options{Seed: seed, Config: spec.Default().Scheduling}
}

// TestDigests pins the placements of small runs; that two runs are the same shows in that every machine finds what is written. A change of
// policy changes them: regenerate with -rewrite, and look at what else changed.
func TestDigests(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, filepath.Join("testdata", "digests"), func(t *testing.T, d *datadriven.TestData) string {
		o := options(0)
		var text, seed, schedulers string
		d.ScanArgs(t, "workload", &text)
		d.ScanArgs(t, "seed", &seed)
		d.ScanArgs(t, "schedulers", &schedulers)
		o.Seed, _ = strconv.ParseUint(seed, 10, 64)
		o.Schedulers, _ = strconv.Atoi(schedulers)
		o.CheckEvery = 1
		w := invent(t, strings.ReplaceAll(text, "/", ","), o.Seed)
		if d.HasArg("faults") {
			o.Faults = DefaultFaults(w)
		}
		o.Preempt = d.HasArg("preempt")
		if d.HasArg("arrive") {
			var err error
			if w, err = trace.Arrive(w, 1.3, o.Seed); err != nil {
				t.Fatal(err)
			}
			o.Final = true
		}
		r, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d of %d placed %v, gpu %.2f %%, conflicts %.2f %%\n%s\n",
			r.Placed, r.Pods, r.Reasons, r.GPUAllocatedPercent, r.ConflictPercent, r.Digest)
	})
}

// TestSameSeedSameRun runs every kind of synthetic workload twice; both runs must be the same. It finds decisions that depend on the order
// of a map.
func TestSameSeedSameRun(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"nodes=12,pods=300,classes=8,minutes=5,load=150",
		"nodes=12,pods=300,classes=8,minutes=5,load=150,queues=6",
		"nodes=12,pods=300,classes=8,minutes=5,load=150,queues=6,gangs=60",
		"nodes=12,pods=300,classes=8,minutes=5,load=150,gangs=60,constraints=1",
		"nodes=12,pods=200,classes=8,minutes=5,load=150,reclaimed=400",
		"nodes=12,pods=200,classes=8,minutes=5,load=150,queues=6,numa=4,dedicated=30,devices=40",
		"nodes=8,pods=200,classes=8,minutes=5,load=60,numa=2,dedicated=10,devices=80,owners=60",
	} {
		w := invent(t, text, 4)
		for _, schedulers := range []int{1, 4} {
			for _, faults := range []bool{false, true} {
				o := options(4)
				o.Schedulers, o.Preempt = schedulers, true
				if faults {
					o.Faults = DefaultFaults(w)
				}
				run := func() string {
					r, err := Run(t.Context(), invent(t, text, 4), o)
					if err != nil {
						t.Fatal(err)
					}
					return fmt.Sprintf("%d decisions in %d steps, %d preempted, %d released, placed %d, not %v, faults %v, digest %s",
						r.Decisions, r.Steps, r.Preempted, r.Released, r.Placed, r.Reasons, r.Faults, r.Digest)
				}
				if first, second := run(), run(); first != second {
					t.Errorf("%s, schedulers=%d, faults=%v:\n%s, then\n%s", text, schedulers, faults, first, second)
				}
			}
		}
	}
}

// seedsToRun is how many seeds of each faulty simulation run; HILBERT_SIM_SEEDS sets it.
func seedsToRun(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("HILBERT_SIM_SEEDS")
	if text == "" {
		return 30
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		t.Fatalf("HILBERT_SIM_SEEDS=%q: want a number of seeds, for example 100", text)
	}
	return n
}

// stepsBetweenChecks: checking every invariant after each step takes four fifths of a run's time. Every decision is checked when it is committed in any case, so
// that a few seeds are checked after each fourth step, and the many seeds of a long suite after each one.
func stepsBetweenChecks() int {
	if os.Getenv("HILBERT_SIM_SEEDS") == "" {
		return 4
	}
	return 1
}

const faultyWorkload = "nodes=12,pods=300,classes=16,minutes=5"

// TestFaults runs a small busy cluster in which everything goes wrong, with every invariant checked after every step.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, schedulers := range []int{1, 4} {
		t.Run(fmt.Sprintf("schedulers=%d", schedulers), func(t *testing.T) {
			seen := make(map[string]int)
			conflicts, refused := 0.0, 0
			var divided Partitioned
			for seed := range seedsToRun(t) {
				w := invent(t, faultyWorkload, seed)
				o := options(seed)
				o.Schedulers, o.CheckEvery, o.Faults, o.Partitions = schedulers, stepsBetweenChecks(), DefaultFaults(w), true
				r, err := Run(t.Context(), w, o)
				if err != nil {
					t.Fatalf("%v\nreproduce it: hilbert sim --synthetic %s --faults --check --partitions --schedulers %d --seed %d", err, faultyWorkload, schedulers, seed)
				}
				for name, n := range r.Faults {
					seen[name] += n
				}
				conflicts += r.ConflictPercent
				refused += *r.RefusedThoughFit
				divided.add(r.Partitioned)
			}
			if (schedulers > 1) != divided.everyWay() {
				t.Errorf("%d schedulers: the nodes were divided so often: %+v", schedulers, divided)
			}
			// Faults that never strike prove nothing.
			for _, name := range []string{
				"binding done", "binding gone", "binding conflict", "binding refused", "binding unknown", "binding not sent",
				"read done", "read elsewhere", "condition done", "condition unknown", "node raced for", "pod stolen",
				"strike: deletion", "strike: node flap", "strike: node edit", "strike: restart", "strike: relist",
			} {
				if seen[name] == 0 {
					t.Errorf("in all seeds there was never: %s", name)
				}
			}
			if (conflicts > 0) != (schedulers > 1) {
				t.Errorf("%d schedulers, mean conflicts %g %%", schedulers, conflicts/float64(seedsToRun(t)))
			}
			if refused > 0 {
				t.Errorf("%d pods were said to fit nowhere though they did", refused)
			}
		})
	}
}

// everyWay: there was each of them.
func (p *Partitioned) everyWay() bool { return p.Splits > 0 && p.Merges > 0 && p.Rebalances > 0 }

// tellNode tells the scheduler of every node with a change.
func tellNode(change func(*facts.Node)) func(facts.Event) facts.Event {
	edit := func(n *facts.Node) *facts.Node {
		c := *n
		change(&c)
		return &c
	}
	return func(e facts.Event) facts.Event {
		switch e := e.(type) {
		case facts.NodeUpserted:
			return facts.NodeUpserted{Node: edit(e.Node)}
		case facts.NodesListed:
			nodes := make([]*facts.Node, len(e.Nodes))
			for i, n := range e.Nodes {
				nodes[i] = edit(n)
			}
			return facts.NodesListed{Nodes: nodes}
		}
		return e
	}
}

// tellPod tells the scheduler of every pod with a change, or not at all if change returns false.
func tellPod(change func(*facts.Pod) bool) func(facts.Event) facts.Event {
	return func(e facts.Event) facts.Event {
		if e, ok := e.(facts.PodUpserted); ok {
			if !change(&e.Pod) {
				return nil
			}
			return e
		}
		return e
	}
}

// tellRequirements tells the scheduler that every pod asks for something else.
func tellRequirements(change func(*facts.Requirements)) func(facts.Event) facts.Event {
	return tellPod(func(f *facts.Pod) bool {
		r := *f.Requirements
		change(&r)
		f.Requirements = &r
		return true
	})
}

// hide keeps one type of event from the scheduler.
func hide[E facts.Event](e facts.Event) facts.Event {
	if _, ok := e.(E); ok {
		return nil
	}
	return e
}

// answerInstead turns one outcome into another.
func answerInstead(from, to bind.Outcome) func(bind.Result) bind.Result {
	return func(r bind.Result) bind.Result {
		if r.Outcome == from {
			r.Outcome = to
		}
		return r
	}
}

// breach runs one seed with a mistake in it, and returns the violation. calm: only writes fail and no pod leaves, so that nothing repairs the
// mistake by chance.
func breach(t *testing.T, mistake seams, calm bool, seed uint64) *Violation {
	t.Helper()
	w := invent(t, faultyWorkload, seed)
	o := options(seed)
	o.CheckEvery, o.Faults = 1, DefaultFaults(w)
	if calm {
		w = invent(t, "nodes=12,pods=300,classes=1,minutes=5", seed)
		o.Faults.Until, o.Faults.WatchLag = 0, Range{}
	}
	s, err := newSimulation(w, o)
	if err != nil {
		t.Fatal(err)
	}
	s.process.seams = mistake
	if err := s.process.start(); err != nil { // the nodes were listed before the mistake was made
		t.Fatal(err)
	}
	_, err = s.run(t.Context())
	broken, _ := errors.AsType[*Violation](err)
	return broken
}

// TestChecksFindMistakes breaks the run in the ways in which a scheduler, a shell or an API server could be wrong. The right check must
// notice each mistake.
func TestChecksFindMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		seams seams
		want  []string // one of these must be in the message
		calm  bool
	}{
		{"node capacity is doubled", seams{told: tellNode(func(n *facts.Node) {
			list := slices.Clone(n.Allocatable)
			for i := range list {
				list[i].Amount *= 2
			}
			n.Allocatable = list
		})}, []string{"must not go to node"}, false},
		{"taints are not seen", seams{told: tellNode(func(n *facts.Node) { n.Taints = nil })}, []string{"taint "}, false},
		{"cordons are not seen", seams{told: tellNode(func(n *facts.Node) { n.Unschedulable = false })}, []string{"unschedulable"}, false},
		{"GPUs are counted twice", seams{told: tellNode(func(n *facts.Node) { n.GPU.GPUs = min(2*n.GPU.GPUs, topology.MaxGPUs) })}, []string{"GPU "}, false},
		{"the node selector is ignored", seams{told: tellRequirements(func(r *facts.Requirements) { r.NodeSelector = nil })}, []string{"node selector"}, false},
		{"node affinity is ignored", seams{told: tellRequirements(func(r *facts.Requirements) { r.Required = nil })}, []string{"required node affinity"}, false},
		{"host ports are ignored", seams{told: tellRequirements(func(r *facts.Requirements) { r.Ports = nil })}, []string{"host port"}, false},
		{"GPU requests are halved", seams{told: tellRequirements(func(r *facts.Requirements) { r.GPU.Milli /= 2 })}, []string{"milli where"}, false},
		{
			"bindings of others are not seen",
			seams{told: tellPod(func(f *facts.Pod) bool { return f.Ours || f.Node == "" })},
			[]string{"the ledger has lost pod", "must not go to node"},
			false,
		},
		{"gates are not seen", seams{told: tellPod(func(f *facts.Pod) bool { f.Gated = false; return true })}, []string{"not to be placed"}, false},
		{"deletions are not seen", seams{told: hide[facts.PodRemoved]}, []string{"which the scheduler has not been told of", "is not to be placed", "which was not decided", "waits though node"}, false},
		{"node removals are not seen", seams{told: hide[facts.NodeRemoved]}, []string{"the ledger has 12 nodes"}, false},
		{"a written Binding is called refused", seams{answered: answerInstead(bind.Written, bind.Refused)}, []string{"a second place", "the ledger has pod"}, false},
		{"a lost Binding is called written", seams{answered: answerInstead(bind.Unknown, bind.Written)}, []string{"the API server has it on"}, true},
		{"wake-ups are lost", seams{asleep: true}, []string{"at rest, but"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(20) {
				broken := breach(t, c.seams, c.calm, seed)
				if broken == nil {
					continue
				}
				if broken.Seed != seed || !strings.Contains(broken.Error(), fmt.Sprintf("seed %d, step ", seed)) {
					t.Errorf("%q does not name seed %d and the step", broken, seed)
				}
				if !slices.ContainsFunc(c.want, func(want string) bool { return strings.Contains(broken.What, want) }) {
					t.Errorf("found %q, want one of %q", broken.What, c.want)
				}
				return
			}
			t.Error("20 seeds did not notice")
		})
	}
}

// TestOvercommitIsFoundWithoutChecks: the API server's books end a run that over-commits, also without --check.
func TestOvercommitIsFoundWithoutChecks(t *testing.T) {
	t.Parallel()
	w := invent(t, "nodes=5,pods=500,classes=4,load=300", 1)
	s, err := newSimulation(w, options(1))
	if err != nil {
		t.Fatal(err)
	}
	s.process.seams.told = func(e facts.Event) facts.Event {
		if e, ok := e.(facts.PodUpserted); ok && e.Pod.Node == "" {
			r := *e.Pod.Requirements
			r.Requests = nil
			e.Pod.Requirements = &r
			return e
		}
		return e
	}
	_, err = s.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "over-commits node") {
		t.Fatalf("got %v", err)
	}
}

// TestDemandedRevision: the checker holds a Plan against what the rejection before it demanded.
func TestDemandedRevision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		revision changes.Revision
		breaks   bool
	}{{6, true}, {7, false}, {8, false}} {
		s, err := newSimulation(invent(t, "nodes=1,pods=1,classes=1", 1), Options{Config: spec.Default().Scheduling, CheckEvery: 1})
		if err != nil {
			t.Fatal(err)
		}
		plan := &cluster.Plan{Placements: []cluster.Placement{{Pod: "p", Node: "n"}}, Revision: 5}
		s.check.Judged(plan, cluster.Verdict{Reason: "NodeResourcesFit", Revision: 7})
		plan.Revision = c.revision
		s.check.Judged(plan, cluster.Verdict{Committed: true})
		if (s.violations.first != nil) != c.breaks {
			t.Errorf("retried at revision %d after 7 was demanded: %v", c.revision, s.violations.first)
		}
	}
}

// tiny is one node of 10 cores and GPU-less pods of 5, whose lives are given in seconds.
func tiny(lives ...[2]int64) *trace.Workload {
	w := &trace.Workload{Name: "tiny", Nodes: []*facts.Node{{
		Name: "n",
		Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 10_000}, {Name: resource.NameMemory, Amount: 1 << 30}, {Name: resource.NamePods, Amount: 10},
		},
	}}}
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 5000}}, ScoreCPU: 5000, ScoreMemory: 1}
	for i, life := range lives {
		task := trace.Task{Name: fmt.Sprintf("p%d", i), Requirements: r, Created: life[0] * 1e9, Deleted: trace.Never}
		if life[1] >= 0 {
			task.Deleted = life[1] * 1e9
		}
		w.Tasks = append(w.Tasks, task)
	}
	return w
}

func TestReport(t *testing.T) {
	t.Parallel()
	// 5 cores for 5 s, 10 for 5 s: 75 % on average. The third pod has to wait, and is placed when the first leaves; the last one never.
	w := tiny([2]int64{0, 10}, [2]int64{5, 20}, [2]int64{6, 20}, [2]int64{7, 9})
	w.Tasks = append(w.Tasks, trace.Task{
		Name: "gpu", Created: 8e9, Deleted: trace.Never, Requirements: &facts.Requirements{GPU: topology.Request{Whole: 1}},
	}, trace.Task{
		Name: "odd", Created: 8e9, Deleted: trace.Never, Requirements: &facts.Requirements{Unsupported: []string{"spec.moon"}},
	}, trace.Task{
		Name: "never", Created: 8e9, Deleted: trace.Never, Requirements: &facts.Requirements{Impossible: "more than all"},
	})
	o := options(1)
	o.CheckEvery = 1
	r, err := Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	// 0-5 s: 5 cores; 5-20 s: 10 cores; of 10 cores over 20 s that is 87.5 %.
	if r.CPUAllocatedPercent != 87.5 || r.CPUPeakPercent != 100 || r.Measure != MeasureMean {
		t.Errorf("cpu %g %%, peak %g %%, %s", r.CPUAllocatedPercent, r.CPUPeakPercent, r.Measure)
	}
	want := "map[GPUFit:1 ImpossibleRequest:1 NodeResourcesFit:1 UnsupportedConstraint:1]"
	if r.Pods != 7 || r.Placed != 3 || r.Unplaced != 4 || fmt.Sprint(r.Reasons) != want {
		t.Errorf("%d pods, %d placed, %d not: %v, want %s", r.Pods, r.Placed, r.Unplaced, r.Reasons, want)
	}
	if r.DecisionsPerSecond != nil || r.WallSeconds != nil || r.PeakRSSBytes != nil {
		t.Error("figures that nobody measured are in the report")
	}
}

func TestReportAtTheEnd(t *testing.T) {
	t.Parallel()
	o := options(1)
	o.Final = true
	r, err := Run(t.Context(), tiny([2]int64{0, -1}, [2]int64{5, -1}, [2]int64{6, -1}), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.CPUAllocatedPercent != 100 || r.Measure != MeasureFinal || r.Unplaced != 1 {
		t.Errorf("cpu %g %% %s, %d unplaced", r.CPUAllocatedPercent, r.Measure, r.Unplaced)
	}
}

// TestDigestCoversPlacement: each part of a placement changes the digest.
func TestDigestCoversPlacement(t *testing.T) {
	t.Parallel()
	digests := make(map[string]string)
	for name, change := range map[string]func(*trace.Workload){
		"nothing": func(*trace.Workload) {},
		"pod":     func(w *trace.Workload) { w.Tasks[0].Name = "q" },
		"node":    func(w *trace.Workload) { w.Nodes[0].Name = "m" },
		"time":    func(w *trace.Workload) { w.Tasks[0].Created = 1 },
		"gpu": func(w *trace.Workload) {
			w.Nodes[0].GPU = topology.Shape{GPUs: 1, Model: "x"}
			r := *w.Tasks[0].Requirements
			r.GPU.Whole = 1
			w.Tasks[0].Requirements = &r
		},
	} {
		w := tiny([2]int64{0, -1})
		change(w)
		r, err := Run(t.Context(), w, options(1))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := digests[r.Digest]; ok {
			t.Errorf("%s and %s give the same digest", name, other)
		}
		digests[r.Digest] = name
	}
}

// TestExampleOfDoc runs the example of the package's documentation.
func TestExampleOfDoc(t *testing.T) {
	t.Parallel()
	w := tiny([2]int64{0, 60}, [2]int64{10, -1})
	w.Nodes[0].Allocatable = []resource.Quantity{{Name: resource.NameCPU, Amount: 4000}, {Name: resource.NamePods, Amount: 10}}
	for i, cpus := range []int64{3, 2} {
		w.Tasks[i].Requirements = &facts.Requirements{Requests: requests(cpus*1000, 0)}
	}
	r, err := Run(t.Context(), w, options(1))
	if err != nil {
		t.Fatal(err)
	}
	if r.Placed != 2 || r.Steps != 3 || r.VirtualSeconds != 60 {
		t.Errorf("%d pods placed in %d steps and %v seconds", r.Placed, r.Steps, r.VirtualSeconds)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := options(1)
	o.Wall = func() time.Duration { return 0 }
	o.Progress = func(p Progress) {
		if p.Arrived > 0 {
			cancel()
		}
	}
	r, err := Run(ctx, invent(t, "nodes=100,pods=20000,classes=8", 1), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || r.Pods == 0 || r.Pods >= 20000 {
		t.Errorf("interrupted: %v, after %d pods", r.Interrupted, r.Pods)
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"schedulers: want":    func(o *Options) { o.Schedulers = MaxSchedulers + 1 },
		"check every":         func(o *Options) { o.CheckEvery = -1 },
		"below the write tim": func(o *Options) { o.Faults = &Faults{WriteLatency: Range{0, time.Hour}} },
		"no range of times":   func(o *Options) { o.Faults = &Faults{WatchLag: Range{2, 1}} },
		"nothing would ever":  func(o *Options) { o.Faults = &Faults{LostRequests: 900} },
		"NoSuchScore":         func(o *Options) { o.Config.Scores = map[string]int64{"NoSuchScore": 1} },
	} {
		o := options(1)
		change(&o)
		if _, err := Run(t.Context(), tiny(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestEmptyWorkload(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), &trace.Workload{Name: "empty"}, options(1))
	if err != nil || r.Pods != 0 || r.CPUAllocatedPercent != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
