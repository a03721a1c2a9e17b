package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
)

const tenantedWorkload = "nodes=12,pods=300,classes=8,minutes=5,load=150,queues=6,gangs=60"

// TestTenants runs gangs in a tree of queues in a cluster that is too small for them, with every fault and every invariant.
func TestTenants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		schedulers int
		preempt    bool
	}{{1, false}, {1, true}, {4, false}, {4, true}} {
		t.Run(fmt.Sprintf("schedulers=%d/preempt=%v", c.schedulers, c.preempt), func(t *testing.T) {
			seen := make(map[string]int)
			for seed := range max(seedsToRun(t)/2, 1) {
				w := invent(t, tenantedWorkload, seed)
				o := options(seed)
				o.Schedulers, o.CheckEvery, o.Faults, o.Preempt = c.schedulers, stepsBetweenChecks(), DefaultFaults(w), c.preempt
				r, err := Run(t.Context(), w, o)
				if err != nil {
					t.Errorf("%v\nreproduce it: hilbert sim --synthetic %s --faults --check --preempt=%v --schedulers %d --seed %d", err, tenantedWorkload, c.preempt, c.schedulers, seed)
					continue
				}
				for name, n := range r.Faults {
					seen[name] += n
				}
			}
			for _, name := range []string{"unit condition done", "unit condition gone", "unit condition unknown", "strike: queue edit", "strike: unit flap"} {
				if seen[name] == 0 {
					t.Errorf("in all seeds there was never: %s", name)
				}
			}
		})
	}
}

// TestTenantsWithoutFaults does what TestTenants does without faults. Then no fault wakes a pod that the scheduler has forgotten, so that the
// checks at rest find more. In the first seeds a child is beyond its guarantee below a parent that is not, and the rest of a limit is reserved for a gang.
func TestTenantsWithoutFaults(t *testing.T) {
	t.Parallel()
	seeds := []uint64{4, 58, 60}
	for seed := range seedsToRun(t) / 6 {
		seeds = append(seeds, seed)
	}
	for _, schedulers := range []int{1, 4} {
		for _, seed := range seeds {
			o := options(seed)
			o.Schedulers, o.CheckEvery, o.Preempt = schedulers, stepsBetweenChecks(), true
			if _, err := Run(t.Context(), invent(t, tenantedWorkload, seed), o); err != nil {
				t.Errorf("%v\nreproduce it: hilbert sim --synthetic %s --check --preempt=true --schedulers %d --seed %d", err, tenantedWorkload, schedulers, seed)
			}
		}
	}
}

// tellUnit tells the scheduler of every PodGroup with a change.
func tellUnit(change func(*facts.Unit)) func(facts.Event) facts.Event {
	edit := func(f *facts.Unit) *facts.Unit {
		c := *f
		change(&c)
		return &c
	}
	return func(e facts.Event) facts.Event {
		switch e := e.(type) {
		case facts.UnitUpserted:
			return facts.UnitUpserted{Unit: edit(e.Unit)}
		case facts.UnitsListed:
			var list []*facts.Unit
			for _, f := range e.Units {
				list = append(list, edit(f))
			}
			return facts.UnitsListed{Units: list}
		}
		return e
	}
}

// tellQueue tells the scheduler of every queue with a change.
func tellQueue(change func(*facts.Queue)) func(facts.Event) facts.Event {
	edit := func(f *facts.Queue) *facts.Queue {
		c := *f
		change(&c)
		return &c
	}
	return func(e facts.Event) facts.Event {
		switch e := e.(type) {
		case facts.QueueUpserted:
			return facts.QueueUpserted{Queue: edit(e.Queue)}
		case facts.QueuesListed:
			var list []*facts.Queue
			for _, f := range e.Queues {
				list = append(list, edit(f))
			}
			return facts.QueuesListed{Queues: list}
		}
		return e
	}
}

// TestChecksFindTenantMistakes breaks runs with gangs and queues in the ways in which a scheduler could be wrong about them. The right check
// must notice each. Where resting is set, only the checks at rest run.
func TestChecksFindTenantMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		told    func(facts.Event) facts.Event
		want    string
		resting bool
		found   uint64 // a seed that shows it, tried first: what it costs is time only
	}{
		{"limits are not seen", tellQueue(func(f *facts.Queue) { f.Max = nil }), "has not enough", false, 0},
		{"borrowing is always allowed", tellQueue(func(f *facts.Queue) { f.BorrowsNothing = false }), "has not enough", false, 0},
		{"parents are not seen", tellQueue(func(f *facts.Queue) { f.Parent = "" }), "has ", false, 0},
		{"namespaces are not seen", func(e facts.Event) facts.Event {
			if _, ok := e.(facts.NamespacesListed); ok {
				return facts.NamespacesListed{}
			}
			return e
		}, "has not enough", false, 0},
		{"queues without preemption are not seen", tellQueue(func(f *facts.Queue) { f.NeverPreempts = false }), "allows no preemption", false, 12},
		{"queues that keep what they borrow are not seen", tellQueue(func(f *facts.Queue) { f.KeepsBorrowed = false }), "keeps what it has borrowed", false, 8},
		{"minimum runtimes are not seen", tellQueue(func(f *facts.Queue) { f.ReclaimMinRuntime = nil }), "and its queue protects it for", false, 9},
		{"guarantees are thought smaller", tellQueue(func(f *facts.Queue) { f.Guaranteed = scaled(f.Guaranteed, 10) }), "than it is guaranteed", false, 0},
		{"one member is thought enough", tellUnit(func(f *facts.Unit) { f.MinMember = 1 }), "that it needs", false, 0},
		{"one member is thought enough, at rest only", tellUnit(func(f *facts.Unit) { f.MinMember = 1 }), "was never whole", true, 0},
		{"members are thought to be on their own", tellPod(func(f *facts.Pod) bool { f.Unit = ""; return true }), "that it needs", false, 0},
		{"required racks are not seen", tellUnit(func(f *facts.Unit) { f.Topology.Required = "" }), "where one is required", false, 0},
		{"uniform models are not seen", tellUnit(func(f *facts.Unit) { f.Topology.Uniform = "" }), spec.LabelGPUModel, false, 0},
		{"subgroups are not seen", tellUnit(func(f *facts.Unit) { f.SubgroupTopology = facts.Packing{} }), "subgroup part-", false, 0},
		{"indivisible gangs are thought divisible", tellUnit(func(f *facts.Unit) { f.Indivisible = false }), "is left below its minimum", false, 12},
		{"members are thought to leave one by one", tellUnit(func(f *facts.Unit) { f.Divisible = !f.Indivisible }), "is left below its minimum", false, 0},
		{"PodGroups are not seen", func(e facts.Event) facts.Event {
			if _, ok := e.(facts.UnitsListed); ok {
				return facts.UnitsListed{}
			}
			return hide[facts.UnitUpserted](e)
		}, "would fit together", true, 0},
		{"PodGroups are thought to stay", hide[facts.UnitRemoved], "does not know", false, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var last error
			const seeds = 40
			for i := range uint64(seeds) {
				seed := (c.found + i) % seeds
				w := invent(t, tenantedWorkload, seed)
				if !strings.Contains(c.name, "runtimes") {
					for _, f := range w.Queues { // what is protected is evicted less, and mistakes show less
						f.ReclaimMinRuntime = nil
					}
				}
				last = mistakenAboutTenants(t, w, seed, c.told, c.resting)
				if broken, ok := errors.AsType[*Violation](last); ok && strings.Contains(broken.What, c.want) {
					return
				}
			}
			t.Errorf("never %q; at last %s", c.want, fmt.Sprint(last))
		})
	}
}

// mistakenAboutTenants runs a scheduler that is told something wrong, and returns what the checks say: those of each step, or only those at rest.
func mistakenAboutTenants(t *testing.T, w *trace.Workload, seed uint64, told func(facts.Event) facts.Event, resting bool) error {
	t.Helper()
	o := options(seed)
	o.Faults, o.Preempt = DefaultFaults(w), true
	o.Faults.Relists, o.Faults.Restarts, o.Faults.QueueEdits = 0, 0, 0
	if !resting {
		o.CheckEvery = 1
	}
	s, err := newSimulation(w, o)
	if err != nil {
		t.Fatal(err)
	}
	s.process.seams.told = told
	if err := s.process.start(); err != nil { // it was told of everything before the mistake was made
		t.Fatal(err)
	}
	_, err = s.run(t.Context())
	return err
}

// TestChecksFindPodWaitingWithinGuarantee: a scheduler that knows of no guarantees lets a pod wait for what others have borrowed, and the
// check notices.
func TestChecksFindPodWaitingWithinGuarantee(t *testing.T) {
	t.Parallel()
	f, err := scenario.Parse("f", `nodes n count=2 cpu=8 mem=64
queue owner guaranteed=cpu:8
queue guest
namespace own queue=owner
namespace lent queue=guest
pods lent/x count=4 cpu=4
run 1m
pods own/x cpu=4
run 1m
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, blind := range []bool{false, true} {
		s, err := newPlay(t.Context(), f, playOptions(1))
		if err != nil {
			t.Fatal(err)
		}
		if blind {
			s.sim.process.seams.told = tellQueue(func(f *facts.Queue) { f.Guaranteed = nil })
		}
		_, err = s.all(f)
		if held := err != nil && strings.Contains(err.Error(), "waits within the guarantee of queue owner"); held != blind {
			t.Errorf("blind: %v; got %v", blind, err)
		}
	}
}

// TestUnusedGuaranteeOfParent: a queue that has used up its own guarantee takes nothing from what its parent has left of its guarantee.
func TestUnusedGuaranteeOfParent(t *testing.T) {
	t.Parallel()
	f, err := scenario.Parse("f", `nodes n count=2 cpu=8 mem=64
queue owner guaranteed=cpu:12
queue branch parent=owner guaranteed=cpu:4
queue guest
namespace own queue=branch
namespace lent queue=guest
pods lent/x count=3 cpu=4
run 1m
pods own/x count=2 cpu=4
run 1m
`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newPlay(t.Context(), f, playOptions(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.all(f); err != nil {
		t.Error(err)
	}
	used := s.sim.api.usage()
	if got := [2]int64{used["branch"][resource.NameCPU], used["guest"][resource.NameCPU]}; got != [2]int64{4000, 12000} {
		t.Errorf("branch and guest have %v, want 4 and 12 cores", got)
	}
}

// TestTenantsFound plays what seeds have found, each with the mistake that it showed.
func TestTenantsFound(t *testing.T) {
	t.Parallel()
	const (
		devices = tenantedWorkload + ",constraints=1,numa=2,dedicated=20,devices=40"
		tied    = "nodes=12,pods=300,classes=16,minutes=5,load=150,gangs=60,constraints=1"
		claims  = "nodes=12,pods=200,classes=8,minutes=5,load=150,queues=6,gangs=60,claims=40"
		given   = "nodes=12,pods=200,classes=8,minutes=5,load=150,gangs=40,claims=40"
	)
	for _, c := range []struct {
		mistake, workload string
		seed              uint64
		evicted           bool // agents and the API server interfere with evictions
	}{
		{"members that are unlike were placed in one order only, and the gang slept until somebody took a place from it", devices, 2, true},
		{"what a limit left over of a gang was decided again on a snapshot that had not seen why", devices, 29, true},
		{"the model's agent asked for ever for the eviction of a pod that had gone", devices, 107, true},
		{"a gang slept beside room, for no member might go to the zone that came free before another one was elsewhere", tied, 7, true},
		{"the check thought that a node had room for pods whose volumes are on another one", claims, 15, true},
		{"a volume was taken from the claim that it had come to while the pod that it was promised to waited for its turn", given, 37, false},
	} {
		t.Run(fmt.Sprint(c.seed), func(t *testing.T) {
			t.Parallel()
			w := invent(t, c.workload, c.seed)
			o := options(c.seed)
			o.Schedulers, o.CheckEvery, o.Faults, o.Preempt = 4, 16*stepsBetweenChecks(), DefaultFaults(w), true
			if c.evicted {
				o.Faults.AddEvictionFaults()
			}
			if _, err := Run(t.Context(), w, o); err != nil {
				t.Errorf("%s again: %v", c.mistake, err)
			}
		})
	}
}
