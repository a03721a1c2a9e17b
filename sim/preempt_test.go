package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/trace"
)

// busy is a workload that asks for more than there is, at two priorities. Every other seed its pods never end.
func busy(t *testing.T, seed uint64) *trace.Workload {
	t.Helper()
	if seed%2 == 0 {
		return invent(t, "nodes=8,pods=180,classes=8,minutes=5,load=200", seed)
	}
	w := invent(t, "nodes=6,pods=150,classes=8,load=200", seed)
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(w.Tasks), func(i, j int) { w.Tasks[i], w.Tasks[j] = w.Tasks[j], w.Tasks[i] })
	for i := range w.Tasks {
		w.Tasks[i].Created, w.Tasks[i].Deleted = int64(i)*int64(time.Second), trace.Never
	}
	return w
}

// TestPreemption runs a full cluster with every fault; the important pods have to evict others to get a place.
func TestPreemption(t *testing.T) {
	t.Parallel()
	for _, schedulers := range []int{1, 4} {
		t.Run(fmt.Sprintf("schedulers=%d", schedulers), func(t *testing.T) {
			seen := make(map[string]int)
			preempted := 0
			for seed := range seedsToRun(t) {
				w := busy(t, seed)
				o := options(seed)
				o.Schedulers, o.CheckEvery, o.Faults, o.Preempt = schedulers, stepsBetweenChecks(), DefaultFaults(w), true
				o.Faults.AddEvictionFaults()
				r, err := Run(t.Context(), w, o)
				if err != nil {
					t.Fatal(err)
				}
				for name, n := range r.Faults {
					seen[name] += n
				}
				preempted += r.Preempted
			}
			for _, name := range []string{
				"nomination done", "nomination unknown", "nomination refused", "disruption done", "disruption unknown", "disruption refused",
				"deletion done", "deletion unknown", "deletion gone", "strike: restart", "victim stuck", "strike: node loss",
			} {
				if seen[name] == 0 {
					t.Errorf("in all seeds there was never: %s", name)
				}
			}
			if preempted == 0 {
				t.Error("nobody was preempted")
			}
			t.Logf("%d preempted", preempted)
		})
	}
}

// TestChecksFindPreemptionMistakes breaks runs with preemption. The right check must notice each mistake.
func TestChecksFindPreemptionMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		seams seams
		want  string
	}{
		{"running pods seem unimportant", seams{told: tellPod(func(f *facts.Pod) bool {
			if f.Node != "" {
				f.Priority -= 1 << 30
			}
			return true
		})}, "which is of no lower priority"},
		{"a lost nomination is called written", seams{answered: answerInstead(bind.Unknown, bind.Written)}, "is evicted for no pod"},
		{"no pod seems to be allowed to preempt", seams{told: tellPod(func(f *facts.Pod) bool {
			f.NeverPreempts = true
			return true
		})}, "waits though it could preempt"},
		{"a node that can be reached again seems to be lost still", seams{told: func(e facts.Event) facts.Event {
			n, ok := e.(facts.NodeUpserted)
			if !ok || slices.Contains(n.Node.Taints, unreachable) {
				return e
			}
			lost := *n.Node
			lost.Taints = append(slices.Clone(lost.Taints), unreachable)
			return facts.NodeUpserted{Node: &lost}
		}}, "for its victims, though node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var last error
			for seed := range uint64(20) {
				w := busy(t, seed)
				o := options(seed)
				o.CheckEvery, o.Faults, o.Preempt = 1, DefaultFaults(w), true
				o.Faults.Relists, o.Faults.Restarts = 0, 0
				o.Faults.AddEvictionFaults()
				s, err := newSimulation(w, o)
				if err != nil {
					t.Fatal(err)
				}
				s.process.seams = c.seams
				_, last = s.run(t.Context())
				if broken, ok := errors.AsType[*Violation](last); ok && strings.Contains(broken.What, c.want) {
					return
				}
			}
			t.Errorf("never %q; at last %s", c.want, fmt.Sprint(last))
		})
	}
}
