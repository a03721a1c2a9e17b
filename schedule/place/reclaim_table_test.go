package place

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
)

// What changes the price of a node is followed from one decision to the next, though nothing changes on the node itself.
func TestReclaimFollows(t *testing.T) {
	store := cluster.NewStore()
	full := &facts.Requirements{Requests: quantities(resource.NameCPU, 4000)}
	queue := func(name string, guaranteed int) {
		store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Weight: 1, Guaranteed: quantities(resource.NameCPU, guaranteed)}})
		store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}}}})
	}
	node := func(i int) {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", i), Allocatable: quantities(resource.NameCPU, 4000, resource.NamePods, 9)}})
	}
	pod := func(name, namespace, node, unit string, started int64) {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Name: name, Namespace: namespace, Node: node, Unit: unit, Started: started * 1e9, Ours: true, Requirements: full,
		}})
	}
	for i := range 7 {
		node(i)
	}
	for _, name := range []string{"b", "c", "d"} {
		queue(name, 0)
	}
	queue("a", 100000)
	gang := &facts.Unit{UnitName: facts.UnitName{Namespace: "d", Name: "g"}, MinMember: 2}
	store.Apply(facts.UnitUpserted{Unit: gang})
	pod("b1", "b", "n0", "", 90)
	pod("c1", "c", "n1", "", 10)
	pod("c2", "c", "n2", "", 11)
	pod("d1", "d", "n3", "g", 1)
	pod("d2", "d", "n4", "g", 2)
	pod("d3", "d", "n5", "g", 3)
	pod("d4", "d", "n6", "g", 4)
	pod("p", "a", "", "", 0)
	r := newReclaimer(t, store)
	at := int64(100e9)
	expect := func(what string, victims ...string) {
		t.Helper()
		at += 1e9
		found, ok := r.Evict(&pack.Ask{Members: []*cluster.Pod{store.Pod("p")}, Need: 1}, at)
		if !ok || fmt.Sprint(names(found.Victims)) != fmt.Sprint(victims) {
			t.Errorf("%s: %v (%v), want %v", what, names(found.Victims), ok, victims)
		}
	}
	expect("d is furthest over its share, and has two to spare", "d4")
	store.Apply(facts.PodRemoved{UID: "d4"})
	pod("x", "a", "n6", "", 1)
	expect("it has one to spare", "d3")
	store.Apply(facts.PodRemoved{UID: "d3"})
	pod("y", "a", "n5", "", 1)
	expect("d and c are level, and of d the gang would go", "c2")
	gang2 := *gang
	gang2.MinMember = 1
	store.Apply(facts.UnitUpserted{Unit: &gang2})
	at += 2 * victims.CostRefresh
	expect("no gang any more, but c2 has run for less time", "c2")
	queue("c", 8000)
	expect("c has borrowed nothing", "d2")
	queue("d", 8000)
	expect("nor has d", "b1")
	queue("d", 0)
	expect("d has again", "d2")
	store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "c1", Name: "c1", Namespace: "c", Node: "n1", Deleting: true, Requirements: full}})
	expect("c1 leaves anyway", "c1")
	store.Apply(facts.PodRemoved{UID: "c1"})
	if found, ok := r.Evict(&pack.Ask{Members: []*cluster.Pod{store.Pod("p")}, Need: 1}, at); ok {
		t.Errorf("%v leave, though there is room", names(found.Victims))
	}
}

// A claimed pod is not counted on while its queue is within its guarantee, and is when that has borrowed on another node.
func TestReclaimFollowsBorrowing(t *testing.T) {
	store := cluster.NewStore()
	for name, guaranteed := range map[string]int{"a": 20, "b": 5, "c": 0} {
		store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Weight: 1, Guaranteed: quantities(resource.NameCPU, guaranteed)}})
		store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}}}})
	}
	for i, cpu := range []int{4, 2, 2} {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", i), Allocatable: quantities(resource.NameCPU, cpu, resource.NamePods, 9)}})
	}
	pod := func(name, namespace, node string, cpu int, priority int32) {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Name: name, Namespace: namespace, Node: node, Priority: priority, Ours: true, Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, cpu)},
		}})
	}
	pod("v", "b", "n0", 4, 0)
	pod("y", "c", "n2", 2, 0)
	pod("z", "a", "n1", 2, 0)
	pod("q", "b", "", 1, 5)
	if verdict := store.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: "q", Node: "n0"}}, Victims: []facts.UID{"v"}}, rules.Commits); !verdict.Committed {
		t.Fatal(verdict)
	}
	pod("p", "a", "", 2, 0)
	r := newReclaimer(t, store)
	expect := func(what, victim string) {
		t.Helper()
		found, ok := r.Evict(&pack.Ask{Members: []*cluster.Pod{store.Pod("p")}, Need: 1}, 100e9)
		if !ok || fmt.Sprint(names(found.Victims)) != fmt.Sprint([]string{victim}) {
			t.Errorf("%s: %v (%v), want %s", what, names(found.Victims), ok, victim)
		}
	}
	expect("b has borrowed nothing, with v or without", "y")
	store.Apply(facts.PodRemoved{UID: "z"})
	pod("x", "b", "n1", 2, 0)
	expect("with v it has", "v")
}

// The same for gangs that change on other nodes, and for levels that rise and fall.
func TestReclaimFollowsOthers(t *testing.T) {
	full := &facts.Requirements{Requests: quantities(resource.NameCPU, 4000)}
	type step struct {
		add     string // a pod of a namespace, the first letter of its name, on a node of its own
		unit    string
		started int64
		gone    string
		victim  string
	}
	for _, c := range []struct {
		name   string
		queues []string
		steps  []step
	}{
		{"a member more makes another one spare", nil, []step{
			{add: "g1", unit: "g", started: 10},
			{add: "g2", unit: "g", started: 90},
			{add: "v", started: 50, victim: "v"},
			{add: "g3", unit: "g", started: 5, victim: "g2"},
		}},
		{"a level falls", []string{"b", "c"}, []step{
			{add: "b1", started: 50},
			{add: "c1", started: 10},
			{add: "c2", started: 20, victim: "c2"},
			{gone: "c2"},
			{add: "p2", started: 1, victim: "b1"},
		}},
		{"a level rises", []string{"b", "c"}, []step{
			{add: "b1", started: 90},
			{add: "c1", started: 10},
			{add: "c2", started: 20, victim: "c2"},
			{add: "b2", started: 1},
			{add: "b3", started: 2, victim: "b1"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := cluster.NewStore()
			for _, name := range c.queues {
				store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Weight: 1}})
				store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}}}})
			}
			store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "g", Name: "g"}, MinMember: 2}})
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "p", Name: "p", Namespace: "p", Ours: true, Priority: 5, Requirements: full}})
			r := newReclaimer(t, store)
			for _, s := range c.steps {
				if s.gone != "" {
					store.Apply(facts.NodeRemoved{Name: "n-" + s.gone})
					store.Apply(facts.PodRemoved{UID: facts.UID(s.gone)})
					continue
				}
				store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n-" + s.add, Allocatable: quantities(resource.NameCPU, 4000, resource.NamePods, 9)}})
				store.Apply(facts.PodUpserted{Pod: facts.Pod{
					UID: facts.UID(s.add), Name: s.add, Namespace: s.add[:1], Node: "n-" + s.add, Unit: s.unit, Started: s.started * 1e9, Requirements: full,
				}})
				if s.victim == "" {
					continue
				}
				found, ok := r.Evict(&pack.Ask{Members: []*cluster.Pod{store.Pod("p")}, Need: 1}, 100e9)
				if !ok || fmt.Sprint(names(found.Victims)) != fmt.Sprint([]string{s.victim}) {
					t.Errorf("after %s: %v (%v), want %s", s.add, names(found.Victims), ok, s.victim)
				}
			}
		})
	}
}

// A gang that goes takes along what a pod of the unit has to be near: another node it is, then.
func TestReclaimAsksAgain(t *testing.T) {
	store := cluster.NewStore()
	store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Name: "g"}, MinMember: 2}})
	cpu := quantities(resource.NameCPU, 4000)
	for i, f := range []facts.Pod{
		{UID: "g1", Unit: "g"},
		{UID: "g2", Unit: "g", Labels: []facts.Label{{Key: "app", Value: "a"}}},
		{UID: "v", Priority: 3},
	} {
		f.Name, f.Node, f.Requirements = string(f.UID), fmt.Sprint("n", i), &facts.Requirements{Requests: cpu}
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: f.Node, Labels: map[string]string{"zone": "z"}, Allocatable: quantities(resource.NameCPU, 4000, resource.NamePods, 9),
		}})
		store.Apply(facts.PodUpserted{Pod: f})
	}
	near := facts.AffinityTerm{TopologyKey: "zone", Pods: facts.PodSelector{Namespaces: []string{""}, Labels: facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{"a"}}},
	}}}
	store.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "p", Name: "p", Ours: true, Priority: 5, Requirements: &facts.Requirements{Requests: cpu, Affinity: []facts.AffinityTerm{near}},
	}})
	r := newReclaimer(t, store)
	found, ok := r.Evict(&pack.Ask{Members: []*cluster.Pod{store.Pod("p")}, Need: 1}, 0)
	checkUntouched(t, r)
	if !ok || fmt.Sprint(names(found.Victims)) != "[v]" {
		t.Fatalf("%v (%v), want v", names(found.Victims), ok)
	}
	if verdict := store.Commit(planOf(store, &found), rules.Commits); !verdict.Committed {
		t.Fatal(verdict)
	}
}

// A gang that is claimed whole is not shared by a pod that has to be near a member of it.
func TestReclaimStaysNear(t *testing.T) {
	store := cluster.NewStore()
	store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Name: "g"}, MinMember: 2}})
	near := facts.AffinityTerm{TopologyKey: "zone", Pods: facts.PodSelector{Namespaces: []string{""}, Labels: facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{"a"}}},
	}}}
	for i := range 2 {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: fmt.Sprint("n", i), Labels: map[string]string{"zone": "z"}, Allocatable: quantities(resource.NameCPU, 4000, resource.NamePods, 9),
		}})
	}
	for _, f := range []facts.Pod{
		{UID: "g1", Unit: "g", Node: "n0", Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, 4000)}},
		{UID: "g2", Unit: "g", Node: "n1", Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, 4000)}, Labels: []facts.Label{{Key: "app", Value: "a"}}},
		{UID: "q", Ours: true, Priority: 5, Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, 1000)}},
		{UID: "p", Ours: true, Priority: 5, Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, 1000), Affinity: []facts.AffinityTerm{near}}},
	} {
		f.Name = string(f.UID)
		store.Apply(facts.PodUpserted{Pod: f})
	}
	claim := cluster.Plan{Placements: []cluster.Placement{{Pod: "q", Node: "n0"}}, Victims: []facts.UID{"g1", "g2"}}
	if verdict := store.Commit(&claim, rules.Commits); !verdict.Committed {
		t.Fatal(verdict)
	}
	r := newReclaimer(t, store)
	if found, ok := r.Evict(&pack.Ask{Members: []*cluster.Pod{store.Pod("p")}, Need: 1}, 0); ok {
		t.Errorf("it counts on %v; the ledger says: %v", names(found.Victims), store.Commit(planOf(store, &found), rules.Commits))
	}
	checkUntouched(t, r)
}

// The work that is lost grows with time: at first more of it is in v1, which is small and old, in the end in v2, which is large and young.
func TestReclaimFollowsTime(t *testing.T) {
	store := cluster.NewStore()
	for i, cpu := range []int{1000, 4000} {
		f := facts.Pod{
			UID: facts.UID(fmt.Sprint("v", i+1)), Name: fmt.Sprint("v", i+1), Node: fmt.Sprint("n", i), Started: []int64{50e9, 99e9}[i],
			Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, cpu)},
		}
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: f.Node, Allocatable: quantities(resource.NameCPU, cpu, resource.NamePods, 9)}})
		store.Apply(facts.PodUpserted{Pod: f})
	}
	store.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "p", Ours: true, Priority: 5, Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, 1000)},
	}})
	r := newReclaimer(t, store)
	for _, c := range []struct {
		now    int64
		victim string
	}{{100e9, "v2"}, {1000e9, "v1"}} {
		found, ok := r.Evict(&pack.Ask{Members: []*cluster.Pod{store.Pod("p")}, Need: 1}, c.now)
		if !ok || found.Victims[0].Name != c.victim {
			t.Errorf("at %d: %v (%v), want %s", c.now, names(found.Victims), ok, c.victim)
		}
	}
}
