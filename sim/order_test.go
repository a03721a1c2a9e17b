package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
)

// oneNode is a node with room for so many pods of one CPU.
func oneNode(pods int64) *trace.Workload {
	return &trace.Workload{Name: "order", Identities: map[string]trace.Identity{"": {Namespace: "ns"}}, Nodes: []*facts.Node{{
		Name: "n", Labels: map[string]string{}, Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000 * pods}, {Name: resource.NamePods, Amount: pods}},
	}}}
}

// arrive adds pods that arrive at a time and stay. The reclaimed and the important ones are of the reclaimed level.
func arrive(w *trace.Workload, name string, pods int, at time.Duration, priority int32) {
	reclaimed := strings.HasPrefix(name, "reclaimed") || name == "important"
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}}, ScoreCPU: 1000, ScoreMemory: 1, Reclaimed: reclaimed}
	for i := range pods {
		w.Tasks = append(w.Tasks, trace.Task{Name: fmt.Sprintf("%s-%d", name, i), Requirements: r, Created: int64(at), Deleted: trace.Never, Priority: priority})
	}
}

// TestOnlineBeforeReclaimed: of pods of one priority that come at once and do not all fit, the online ones get the places, whichever the scheduler
// hears of first. A higher priority counts more than the QoS level. (S16)
func TestOnlineBeforeReclaimed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		w := oneNode(25)
		arrive(w, "reclaimed", 20, 0, 0)
		arrive(w, "online", 20, 0, 0)
		arrive(w, "important", 5, 0, 1)
		s, err := newSimulation(w, options(seed))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range s.api.pods {
			p := &s.api.pods[i]
			if first := p.name[0] != 'r'; first != (p.node != nowhere) {
				t.Errorf("seed %d: %s placed: %v", seed, p.name, p.node != nowhere)
			}
		}
	}
}

// TestBinderServesByPriority: when Bindings wait for a place in flight, one of higher priority that is decided later overtakes them. (S16)
func TestBinderServesByPriority(t *testing.T) {
	t.Parallel()
	const latency = time.Second
	w := oneNode(100)
	arrive(w, "low", 40, 0, 0)
	arrive(w, "high", 3, 5*time.Second, 1)
	o := options(1)
	o.Config.Binding.MaxInFlight = 1
	o.Faults = &Faults{WriteLatency: Range{latency, latency}}
	s, err := newSimulation(w, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range s.api.pods {
		p := &s.api.pods[i]
		waited := time.Duration(p.started - p.created)
		if most := 4*latency + time.Millisecond; p.name[0] == 'h' && waited > most {
			t.Errorf("%s was bound after %v, behind others of lower priority; want at most %v", p.name, waited, most)
		}
		if p.node == nowhere {
			t.Errorf("%s was never bound", p.name)
		}
	}
}
