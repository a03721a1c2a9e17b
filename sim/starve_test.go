package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
)

const (
	crowdSpan  = 4 * time.Hour
	longestRun = 8 * time.Minute
)

// crowd is eight nodes and more small pods than they hold, which come and go for hours; now and then a gang needs half of the nodes for itself.
func crowd(seed uint64) *trace.Workload {
	random := rand.New(rand.NewPCG(seed, 99))
	w := &trace.Workload{Name: "crowd", Identities: map[string]trace.Identity{"": {Namespace: "ns"}}}
	for i := range 8 {
		w.Nodes = append(w.Nodes, &facts.Node{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}, Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 8000}, {Name: resource.NamePods, Amount: 110},
		}})
	}
	asks := func(cpu int64) *facts.Requirements {
		return &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}}, ScoreCPU: cpu, ScoreMemory: 1}
	}
	small, whole := asks(2000), asks(8000)
	gangs := 0
	for at := int64(0); at < int64(crowdSpan); at += int64(10 * time.Second) { // 32 places, each for 5 minutes on average: one frees every 9.4 s
		run := int64(2*time.Minute) + random.Int64N(int64(longestRun-2*time.Minute))
		w.Tasks = append(w.Tasks, trace.Task{
			Name: fmt.Sprintf("small-%d", len(w.Tasks)), Requirements: small, Created: at, Deleted: trace.Never, Runs: run, Deadline: run,
		})
		if at%int64(30*time.Minute) != int64(10*time.Minute) {
			continue
		}
		name := fmt.Sprintf("gang-%d", gangs)
		gangs++
		w.Units = append(w.Units, trace.Unit{Deleted: trace.Never, Facts: &facts.Unit{
			UnitName: facts.UnitName{Namespace: "ns", Name: name}, UID: facts.UID(name), Created: at, MinMember: 4, Timeout: int64(24 * time.Hour),
		}})
		for i := range 4 {
			w.Tasks = append(w.Tasks, trace.Task{
				Name: fmt.Sprintf("%s-%d", name, i), Requirements: whole, Created: at, Deleted: trace.Never, Unit: name,
				Runs: int64(5 * time.Minute), Deadline: int64(5 * time.Minute),
			})
		}
	}
	return w
}

// TestGangsDoNotStarve: a gang of whole nodes starts within the time after which nodes are reserved for it, plus the longest run of a small
// pod, plus a quarter for the choice of nodes. Meanwhile small pods use nearly all of the rest. Without reservations gangs wait longer and longer;
// the test checks that too, or it would prove nothing.
func TestGangsDoNotStarve(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		o := options(seed)
		bound := (o.Config.Units.ReserveAfter.D() + longestRun) * 5 / 4
		longest, used := longestWait(t, seed, o)
		if longest > bound {
			t.Errorf("seed %d: a gang waited for %v, at most %v is allowed", seed, longest, bound)
		}
		if used < 90 {
			t.Errorf("seed %d: only %.1f %% of the cluster is used", seed, used)
		}
		o.Config.Units.ReserveAfter = spec.Duration(1000 * time.Hour)
		if without, _ := longestWait(t, seed, o); without < 2*bound {
			t.Errorf("seed %d: without reservations no gang waits for more than %v", seed, without)
		}
	}
}

// longestWait is how long a gang of the crowd waited at most to become whole, and how much of the CPU was used, in percent.
func longestWait(t *testing.T, seed uint64, o Options) (longest time.Duration, used float64) {
	t.Helper()
	w := crowd(seed)
	s, err := newSimulation(w, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.api.units {
		u, f := &s.api.units[i], w.Units[i].Facts
		if !u.whole {
			t.Errorf("seed %d: %s never started", seed, f.UnitName)
		}
		longest = max(longest, time.Duration(u.began-f.Created))
	}
	return longest, r.CPUAllocatedPercent
}
