package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
)

const (
	// rivalsArrive is how long pods arrive for, and quietAfter how much later the last of them may be evicted.
	rivalsArrive = 4 * time.Minute
	quietAfter   = 10 * time.Minute
	quietFor     = 10 * time.Minute
	// accelerator is a resource that only some nodes have.
	accelerator = "example.com/accelerator"
)

// rivals is a small cluster that a tree of queues fights for: each queue is guaranteed some of some resources, and asks for more than that. No pod ends by
// itself. Pods ask for any set of resources; some are gangs. All pods of a queue have the same priority, unless it is mixed.
func rivals(seed uint64, mixed bool) *trace.Workload {
	random := rand.New(rand.NewPCG(seed, 77))
	w := &trace.Workload{Name: "rivals", Identities: make(map[string]trace.Identity)}
	capacity, priorities := make(map[string]int64), make(map[string]int32)
	for i := range 2 + random.IntN(5) {
		has := []resource.Quantity{
			{Name: resource.NameCPU, Amount: 1000 * int64(4+4*random.IntN(3))},
			{Name: resource.NameMemory, Amount: int64(8+8*random.IntN(3)) << 30},
			{Name: resource.NamePods, Amount: 110},
		}
		if random.IntN(3) > 0 {
			has = append(has, resource.Quantity{Name: accelerator, Amount: int64(2 + 2*random.IntN(3))})
		}
		for _, q := range has {
			capacity[q.Name] += q.Amount
		}
		w.Nodes = append(w.Nodes, &facts.Node{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}, Allocatable: has})
	}
	kinds := []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}, {Name: resource.NameMemory, Amount: 1 << 30}, {Name: accelerator, Amount: 1}}
	queues := 2 + random.IntN(5)
	for i := range queues {
		f := &facts.Queue{Name: team(i), Weight: int64(1 + random.IntN(3)), Generation: 1, KeepsBorrowed: random.IntN(12) == 0, NeverPreempts: random.IntN(12) == 0}
		if i >= 2 && random.IntN(2) == 0 {
			f.Parent = team(random.IntN(i))
		}
		for _, kind := range kinds {
			if random.IntN(3) > 0 {
				most := max(capacity[kind.Name]/kind.Amount*2/int64(queues), 1)
				f.Guaranteed = append(f.Guaranteed, resource.Quantity{Name: kind.Name, Amount: random.Int64N(most+1) * kind.Amount})
			}
		}
		w.Queues = append(w.Queues, f)
		w.Namespaces = append(w.Namespaces, facts.Namespace{Name: team(i), Labels: []facts.Label{{Key: spec.LabelQueue, Value: team(i)}}})
		priorities[team(i)] = int32(random.IntN(3))
		w.Identities[team(i)] = trace.Identity{Namespace: team(i)}
	}
	for i := range 40 + random.IntN(60) {
		r := &facts.Requirements{ScoreCPU: 100, ScoreMemory: 1}
		for len(r.Requests) == 0 {
			for _, kind := range kinds {
				if random.IntN(2) == 0 {
					r.Requests = append(r.Requests, resource.Quantity{Name: kind.Name, Amount: int64(1+random.IntN(4)) * kind.Amount})
				}
			}
		}
		task := trace.Task{
			Name: fmt.Sprintf("pod-%d", i), Requirements: r, Created: random.Int64N(int64(rivalsArrive)), Deleted: trace.Never,
			Priority: int32(random.IntN(3)), Group: team(random.IntN(queues)),
		}
		if !mixed {
			task.Priority = priorities[task.Group]
		}
		if random.IntN(6) > 0 {
			w.Tasks = append(w.Tasks, task)
			continue
		}
		members := 2 + random.IntN(3)
		task.Unit = "gang-" + task.Name
		w.Units = append(w.Units, trace.Unit{Deleted: trace.Never, Facts: &facts.Unit{
			UnitName: facts.UnitName{Namespace: task.Group, Name: task.Unit}, UID: facts.UID(task.Unit), Created: task.Created,
			MinMember: int32(1 + random.IntN(members)), Timeout: int64(24 * time.Hour),
		}})
		for m := range members {
			member := task
			member.Name = fmt.Sprintf("%s-%d", task.Name, m)
			w.Tasks = append(w.Tasks, member)
		}
	}
	slices.SortStableFunc(w.Tasks, func(a, b trace.Task) int { return int(a.Created/1000 - b.Created/1000) })
	slices.SortStableFunc(w.Units, func(a, b trace.Unit) int { return int(a.Facts.Created/1000 - b.Facts.Created/1000) })
	return w
}

// protect gives some of the queues minimum runtimes, so that some protections end long after the last pod has arrived. For some seeds it makes gangs single
// pods: nodes that are reserved for gangs again and again keep the scheduler looking.
func protect(w *trace.Workload, seed uint64) *trace.Workload {
	random := rand.New(rand.NewPCG(seed, 78))
	for _, f := range w.Queues {
		if random.IntN(3) > 0 {
			f.ReclaimMinRuntime = new(int64(random.IntN(5)) * int64(time.Minute))
		}
	}
	if seed%2 == 0 {
		w.Units = nil
		for i := range w.Tasks {
			w.Tasks[i].Unit = ""
		}
	}
	return w
}

func team(i int) string { return fmt.Sprintf("team-%d", i) }

const (
	// circling is a seed with which three pods evicted one another for ever, when pods of one queue had different priorities.
	circling = 3519
	// rooted is one with which a pod waited for what only the root, the sum of all guarantees, would have lost.
	rooted = 2274
)

// TestEvictionsEndWithArrivals: queues that are guaranteed different resources come to rest when no more pods arrive: none is evicted later than quietAfter.
// Each decision is checked, so that no queue loses a pod to another while it is within its guarantee of all that the pod holds.
func TestEvictionsEndWithArrivals(t *testing.T) {
	t.Parallel()
	evicted := 0
	seeds := []uint64{circling, rooted}
	for seed := range seedsToRun(t) * 4 {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		o := options(seed)
		o.CheckEvery, o.Preempt, o.Schedulers = 1, true, int(1+seed%2*3)
		n, late, err := strife(t, rivals(seed, seed%4 >= 2), o)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		if late > 0 {
			t.Errorf("seed %d: %d of %d evictions were more than %v after the last arrival", seed, late, n, quietAfter)
		}
		evicted += n
	}
	if evicted < 100 {
		t.Errorf("only %d evictions", evicted)
	}
}

// TestNobodyIsReclaimedEarly: rivals with minimum runtimes, some of which end only when pods arrive no more. No pod is evicted for another queue before it
// has run for as long as its queue says, which each decision is checked for; evictions end; and nothing that was protected keeps a guarantee from whoever waits
// for it, or does not look again when the protection has ended: nothing is flushed.
func TestNobodyIsReclaimedEarly(t *testing.T) {
	t.Parallel()
	evicted := 0
	for seed := range seedsToRun(t) * 4 {
		o := options(seed)
		o.CheckEvery, o.Preempt, o.Schedulers = 1, true, int(1+seed%2*3)
		n, late, err := strifeWith(t, protect(rivals(seed, seed%4 >= 2), seed), o, false)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		if late > 0 {
			t.Errorf("seed %d: %d of %d evictions were more than %v after the last arrival", seed, late, n, quietAfter)
		}
		evicted += n
	}
	if evicted < 100 {
		t.Errorf("only %d evictions", evicted)
	}
}

// strife runs rivals until they have been quiet for long. It counts the pods that were evicted, and those after they should have come to rest, up to three.
func strife(t *testing.T, w *trace.Workload, o Options) (evicted, late int, err error) {
	t.Helper()
	return strifeWith(t, w, o, true)
}

// overslept: in the end nobody may still wait for pods to be protected no more, because all protections ended long ago.
func overslept(s *simulation) {
	for pod, what := range s.process.scheduler.Protected() {
		if strings.Contains(what, "protected from reclaim until") {
			s.violations.add("at rest, but pod %s was not woken: %s", pod, what)
			return
		}
	}
}

func strifeWith(t *testing.T, w *trace.Workload, o Options, flushes bool) (evicted, late int, err error) {
	t.Helper()
	s, err := newSimulation(w, o)
	if err != nil {
		t.Fatal(err)
	}
	s.process.flushes, s.process.seams.rounds = flushes, 1000
	for s.violations.first == nil && late < 3 && s.clock.before(int64(rivalsArrive+quietAfter+quietFor)) {
		s.advance()
		if s.meter.evicted > evicted && s.clock.now > int64(rivalsArrive+quietAfter) {
			late += s.meter.evicted - evicted
		}
		evicted = s.meter.evicted
	}
	if s.violations.first == nil && late == 0 {
		s.audit.atRest()
		if !flushes {
			overslept(s)
		}
	}
	return evicted, late, s.violations.first
}
