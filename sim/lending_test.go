package sim

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
)

const lendingWorkload = "nodes=12,pods=300,classes=16,minutes=5,reclaimed=300"

// Reclaimed pods are placed where the report says that headroom is open. Only they are evicted, only at the request of their nodes, and within the budget,
// whatever fails.
func TestReclaimedPodsStayWithinHeadroom(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for seed := range min(seedsToRun(t), 4) {
		w := invent(t, lendingWorkload, seed)
		o := options(seed)
		o.CheckEvery = 1
		if _, err := Run(t.Context(), w, o); err != nil {
			t.Fatal(err)
		}
		o.Schedulers, o.Faults, o.Preempt = 2, DefaultFaults(w), seed%2 == 1
		r, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatalf("%v\nreproduce it: hilbert sim --synthetic %s --faults --check --schedulers 2 --seed %d", err, lendingWorkload, seed)
		}
		for name, n := range r.Faults {
			seen[name] += n
		}
	}
	for _, name := range []string{"eviction requested and done", "eviction withheld", "strike: headroom fall", "strike: headroom shut", "strike: tide"} {
		if seen[name] == 0 {
			t.Errorf("in all seeds there was never: %s", name)
		}
	}
}

// The headroom of all nodes falls at once: evictions keep within the budget, and only reclaimed pods are evicted.
func TestEvictionBudgetWhenAllHeadroomFalls(t *testing.T) {
	t.Parallel()
	w := invent(t, "nodes=20,pods=600,classes=16,minutes=10,reclaimed=500", 7)
	o := options(7)
	o.CheckEvery = 16
	o.Config.Evictions.PercentPerMinute, o.Config.Evictions.Burst = 5, 1
	s, err := newSimulation(w, o)
	if err != nil {
		t.Fatal(err)
	}
	tide := int64(6 * time.Minute)
	s.clock.add(event{at: tide, kind: evFault, arg: int32(headroomTide)})
	if _, err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	minutes := make(map[int64]int)
	for _, e := range s.check.Evictions() {
		if e.At < tide {
			continue
		}
		minutes[(e.At-tide)/int64(time.Minute)]++
		if e.Urgent {
			t.Errorf("node %s has an urgent request", e.Node)
		}
	}
	reclaimed, total := 0, 0
	for i := range w.Tasks {
		if w.Tasks[i].Requirements.Reclaimed {
			reclaimed++
		}
	}
	for minute, n := range minutes {
		total += n
		if most := reclaimed*5/100 + 2; n > most {
			t.Errorf("%d evictions in minute %d, of %d reclaimed pods", n, minute, reclaimed)
		}
	}
	if total < 10 {
		t.Errorf("%d evictions after the tide", total)
	}
	if s.meter.evicted != len(s.check.Evictions()) {
		t.Errorf("%d pods were evicted, %d of them requested", s.meter.evicted, len(s.check.Evictions()))
	}
}

// lendingGangs is reclaimed gangs, on nodes whose headroom rises and falls; the others are in queues that preempt.
const lendingGangs = "nodes=8,pods=200,classes=8,minutes=5,load=120,reclaimed=700,gangs=70,queues=3"

// TestEvictionsKeepGangsWhole: whoever evicts members of a gang, for a node or for another unit, leaves it as many as it needs or lets it go whole, also
// where answers are lost, PodGroups go and come, and the process that evicted them ends.
func TestEvictionsKeepGangsWhole(t *testing.T) {
	t.Parallel()
	fell, requested, preempted := 0, 0, 0
	for seed := range max(seedsToRun(t)*2/3, 10) {
		w := invent(t, lendingGangs, seed)
		o := options(seed)
		o.CheckEvery, o.Preempt, o.Schedulers = stepsBetweenChecks(), true, int(1+seed%2*3)
		if seed%4 >= 2 {
			o.Faults = DefaultFaults(w)
		}
		o.Config.Evictions.PercentPerMinute, o.Config.Evictions.Burst = 20, 4
		s, err := newSimulation(w, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.run(t.Context())
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		fell += s.check.Fallen()
		requested, preempted = requested+r.Faults["eviction requested and done"], preempted+r.Preempted
	}
	if fell == 0 || requested == 0 || preempted == requested {
		t.Errorf("%d gangs went whole, %d evictions for nodes, %d in all", fell, requested, preempted)
	}
}

func TestChecksFindHeadroomMistakes(t *testing.T) {
	t.Parallel()
	const seeds = 12
	madeUp := make(map[string]string) // reclaimed pods that a node could be told to evict
	for seed := range uint64(seeds) {
		for _, task := range invent(t, lendingWorkload, seed).Tasks {
			if task.Requirements.Reclaimed {
				madeUp[task.Name] = task.Name
			}
		}
	}
	for _, c := range []struct {
		name string
		told func(facts.Event) facts.Event
		want string
	}{
		{"headroom is doubled", tellReport(func(r *facts.NodeReport) {
			r.Headroom.MilliCPU, r.Headroom.Memory = 2*r.Headroom.MilliCPU, 2*r.Headroom.Memory
		}), "must not go to node"},
		{"stale headroom counts", tellReport(func(r *facts.NodeReport) {
			if r.Headroom.State == facts.HeadroomStale {
				r.Headroom.State = facts.HeadroomOpen
			}
		}), "must not go to node"},
		{"closed nodes are open", tellReport(func(r *facts.NodeReport) {
			if r.Headroom.State == facts.HeadroomClosed {
				r.Headroom.State = facts.HeadroomOpen
			}
		}), "must not go to node"},
		{"all requests are urgent", tellReport(func(r *facts.NodeReport) {
			requests := append([]facts.EvictionRequest(nil), r.Evictions...)
			for i := range requests {
				requests[i].Urgent = true
			}
			r.Evictions = requests
		}), "evictions within a minute"},
		{"requests are made up", tellReport(func(r *facts.NodeReport) {
			if len(r.Evictions) == 0 {
				return
			}
			r.Evictions = append([]facts.EvictionRequest(nil), r.Evictions...)
			for uid, name := range madeUp {
				r.Evictions = append(r.Evictions, facts.EvictionRequest{UID: facts.UID(uid), Namespace: namespace, Name: name})
			}
		}), "does not request it"},
		{"headroom is not seen", tellReport(func(r *facts.NodeReport) { r.Headroom = facts.Headroom{} }), "has room for it"},
	} {
		t.Run(c.name, func(t *testing.T) { expectViolation(t, lendingWorkload, seeds, c.told, []string{c.want}) })
	}
}
