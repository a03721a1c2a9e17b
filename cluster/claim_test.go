package cluster_test

import (
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// A pod that is being deleted already may be waited for whatever its priority, and who is claimed, and by whom no more, is told in the log
// that preemption follows: on other nodes, too.
func TestClaims(t *testing.T) {
	cpu := []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}}
	store := cluster.NewStore()
	for _, name := range []string{"n1", "n2"} {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: append(cpu, resource.Quantity{Name: resource.NamePods, Amount: 9})}})
	}
	add := func(f facts.Pod) {
		f.Name, f.Ours, f.Requirements = string(f.UID), true, &facts.Requirements{Requests: cpu}
		store.Apply(facts.PodUpserted{Pod: f})
	}
	store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Name: "g"}, MinMember: 2}})
	add(facts.Pod{UID: "g1", Unit: "g", Node: "n1", Priority: 9})
	add(facts.Pod{UID: "g2", Unit: "g", Node: "n2", Priority: 9})
	add(facts.Pod{UID: "p", Priority: 5})
	plan := &cluster.Plan{Placements: []cluster.Placement{{Pod: "p", Node: "n1"}}, Victims: []facts.UID{"g1", "g2"}}
	if verdict := store.Commit(plan, rules.Commits); verdict.Reason != cluster.RejectVictimOutranks {
		t.Fatalf("victims of higher priority: %v", verdict)
	}
	add(facts.Pod{UID: "g1", Unit: "g", Node: "n1", Priority: 9, Deleting: true})
	add(facts.Pod{UID: "g2", Unit: "g", Node: "n2", Priority: 9, Deleting: true})
	told := func(what string, from changes.Revision) {
		t.Helper()
		seen := make(map[cluster.Slot]bool)
		for r := from; r < store.VictimLog().Len(); r++ {
			seen[store.VictimLog().At(r).Slot] = true
		}
		if len(seen) != 2 {
			t.Errorf("%s: told of %d nodes, want 2", what, len(seen))
		}
	}
	before := store.VictimLog().Len()
	if verdict := store.Commit(plan, rules.Commits); !verdict.Committed {
		t.Fatalf("victims that leave anyway: %v", verdict)
	}
	told("claimed", before)
	before = store.VictimLog().Len()
	store.Release("p")
	told("given up", before)
	if verdict := store.Commit(plan, rules.Commits); !verdict.Committed {
		t.Fatal(verdict)
	}
	before = store.VictimLog().Len()
	add(facts.Pod{UID: "p", Priority: 5, Node: "n1"})
	told("bound by somebody else", before)
}
