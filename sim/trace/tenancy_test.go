package trace

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
)

// TestSyntheticTenancy: with queues and gangs every shape of both occurs, and every name that is used exists; nodes and arrivals stay.
//
//nolint:gocognit // one list of what must occur, read from top to bottom
func TestSyntheticTenancy(t *testing.T) {
	s, err := ParseSynthetic("nodes=24,pods=3000,classes=8,minutes=30,queues=12,gangs=60,gangsize=10")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseSynthetic(s.String()); err != nil || again != s {
		t.Errorf("%s reads back as %s, %v", s, again, err)
	}
	w := s.Generate(1)
	if err := unsound(w); err != nil {
		t.Error(err)
	}
	units := make(map[facts.UnitName]*facts.Unit)
	seen := make(map[string]bool)
	for i := range w.Units {
		f := w.Units[i].Facts
		if units[f.UnitName] != nil {
			t.Errorf("PodGroup %s stands twice", f.UnitName)
		}
		units[f.UnitName] = f
		for name, has := range map[string]bool{
			"required": f.Topology.Required != "", "preferred": f.Topology.Preferred != "", "spread": f.Topology.Spread != "",
			"uniform": f.Topology.Uniform != "", "nested": f.SubgroupTopology.Required != "", "indivisible": f.Indivisible, "divisible": f.Divisible,
			"prioritized": f.Prioritized, "deleted": w.Units[i].Deleted != Never,
		} {
			seen[name] = seen[name] || has
		}
	}
	members := make(map[facts.UnitName]int)
	created := make(map[facts.UnitName]int64)
	for i := range w.Tasks {
		task := &w.Tasks[i]
		if task.Unit == "" {
			seen["single"] = true
			continue
		}
		name := facts.UnitName{Namespace: w.Identities[task.Group].Namespace, Name: task.Unit}
		if units[name] == nil {
			t.Fatalf("task %s names PodGroup %s, which does not exist", task.Name, name)
		}
		members[name]++
		seen["late member"] = seen["late member"] || created[name] > 0 && task.Created > created[name]
		seen["runs"] = seen["runs"] || task.Runs > 0
		created[name] = max(created[name], task.Created)
		seen["late PodGroup"] = seen["late PodGroup"] || units[name].Created > task.Created
		seen["subgroup"] = seen["subgroup"] || task.Subgroup != ""
	}
	for name, f := range units {
		n := members[name]
		seen["elastic"] = seen["elastic"] || n > int(f.MinMember)
		seen["never whole"] = seen["never whole"] || n < int(f.MinMember)
	}
	for _, q := range w.Queues {
		seen[fmt.Sprint("sort ", int(q.Sort))] = true
		seen["max"] = seen["max"] || q.Max != nil
		seen["child"] = seen["child"] || q.Parent != ""
		seen["borrows nothing"] = seen["borrows nothing"] || q.BorrowsNothing
	}
	for _, name := range []string{
		"required", "preferred", "spread", "uniform", "nested", "indivisible", "divisible", "prioritized", "deleted", "single", "late member", "runs",
		"late PodGroup", "subgroup", "elastic", "never whole", "max", "child", "sort 0", "sort 1", "sort 2", "sort 3", "sort 4",
	} {
		if !seen[name] {
			t.Errorf("nothing is: %s", name)
		}
	}
	if len(w.Queues) != 12 || len(w.Namespaces) != 12 {
		t.Errorf("%d queues, %d namespaces", len(w.Queues), len(w.Namespaces))
	}
	s.Queues, s.Gangs = 0, 0
	if plain := s.Generate(1); plain.Tenanted() || plain.Identities != nil || plain.Nodes[0].Labels[LabelRack] != "" || len(plain.Tasks) != len(w.Tasks) {
		t.Error("there are tenants that nobody asked for")
	}
}
