package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// kindsWorld is a ledger whose nodes, queues and pods name made-up resources, and what it was told last.
type kindsWorld struct {
	store    *cluster.Store
	snapshot *cluster.Snapshot
	nodes    map[string][]resource.Quantity
	queue    []resource.Quantity
	pods     map[facts.UID][]resource.Quantity
	idle     int // kinds of an empty ledger
}

var madeUp = []string{"x/a", "x/b", "x/c", "x/d", "x/e", "x/f"}

func drawNamed(t *rapid.T, what string) (list []resource.Quantity) {
	for _, name := range append([]string{resource.NameCPU}, madeUp...) {
		if n := rapid.IntRange(-4, 3).Draw(t, what+" "+name); n > 0 {
			list = append(list, resource.Quantity{Name: name, Amount: int64(n)})
		}
	}
	return list
}

func (w *kindsWorld) step(t *rapid.T) {
	node := oneOf(t, "node", "n0", "n1", "n2")
	uid := facts.UID(fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "pod")))
	switch rapid.IntRange(0, 10).Draw(t, "op") {
	case 0, 1:
		w.nodes[node] = append(drawNamed(t, "node"), resource.Quantity{Name: resource.NamePods, Amount: 5})
		w.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: node, Allocatable: w.nodes[node]}})
	case 2:
		delete(w.nodes, node)
		w.store.Apply(facts.NodeRemoved{Name: node})
	case 3:
		w.queue = drawNamed(t, "queue")
		w.store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "default", Max: w.queue, BorrowsNothing: true}})
	case 4:
		w.queue = nil
		w.store.Apply(facts.QueueRemoved{Name: "default"})
	case 5:
		delete(w.pods, uid)
		w.store.Apply(facts.PodRemoved{UID: uid})
	case 6:
		w.pods[uid] = drawNamed(t, "pod")
		w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Name: "p", Node: node, Requirements: &facts.Requirements{Requests: w.pods[uid]}}})
	case 7:
		if pod := w.store.Pod(uid); pod == nil || pod.Phase == cluster.Pending {
			w.pods[uid] = drawNamed(t, "pod")
			gated := rapid.Bool().Draw(t, "gated")
			w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Name: "p", Ours: true, Gated: gated, Requirements: &facts.Requirements{Requests: w.pods[uid]}}})
		}
	default:
		pod := w.store.Pod(uid)
		verdict := w.store.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: node}}}, rules.Commits)
		if verdict.Committed && pod.Class.Absent != "" {
			t.Fatalf("a pod is placed, and %s", pod.Class.Absent)
		}
	}
}

// named reports whether a node or a queue names a resource.
func (w *kindsWorld) named(name string) bool {
	is := func(q resource.Quantity) bool { return q.Name == name }
	found := slices.ContainsFunc(w.queue, is) || name == resource.NameCPU
	for _, list := range w.nodes {
		found = found || slices.ContainsFunc(list, is)
	}
	return found
}

func amountOf(list []resource.Quantity, name string) (sum int64) {
	for _, q := range list {
		if q.Name == name {
			sum += q.Amount
		}
	}
	return sum
}

// checkKind counts one resource on each node.
func (w *kindsWorld) checkKind(t *rapid.T, state *cluster.State, kind resource.Kind, name string) {
	for node, has := range w.nodes {
		slot := w.store.Slot(node)
		if got, want := state.Allocatable(slot, kind), amountOf(has, name); got != want {
			t.Fatalf("node %s has %d of %s, want %d", node, got, name, want)
		}
		var sum int64
		for _, pod := range w.store.PodsOn(slot) {
			sum += amountOf(w.pods[pod.UID], name)
		}
		if got := state.Requested(slot, kind); got != sum {
			t.Fatalf("%d of %s are requested of node %s, want %d", got, name, node, sum)
		}
	}
}

// check counts by names what the ledger and a snapshot of it count by kinds.
func (w *kindsWorld) check(t *rapid.T) {
	if err := w.store.Verify(); err != nil {
		t.Fatal(err)
	}
	states := []*cluster.State{&w.store.State}
	if rapid.Bool().Draw(t, "advance") {
		w.snapshot.Advance(w.store)
		states = append(states, &w.snapshot.State)
	}
	for _, state := range states {
		for kind := range resource.Kind(state.Kinds()) {
			if name := state.KindName(kind); name != "" && name != resource.NamePods {
				w.checkKind(t, state, kind, name)
			}
		}
	}
	w.store.EachPod(func(pod *cluster.Pod) {
		absent := ""
		for _, q := range w.pods[pod.UID] {
			if absent == "" && !w.named(q.Name) {
				absent = q.Name
			}
		}
		if got := pod.Class.Absent; !pod.Gated && ((got == "") != (absent == "") || !strings.Contains(got, absent)) {
			t.Fatalf("pod %s asks for %v; absent is %q, and it says %q", pod.UID, w.pods[pod.UID], absent, got)
		}
	})
}

// Kinds follow what nodes and queues name, whatever pods name and whoever came first; what is charged is what is requested of all that has a kind; and
// the memory of kinds comes back.
func TestKindsFollowNodesAndQueues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &kindsWorld{
			store: cluster.NewStore(), snapshot: cluster.NewSnapshot(), nodes: map[string][]resource.Quantity{}, pods: map[facts.UID][]resource.Quantity{},
		}
		w.idle = w.store.Kinds()
		if rapid.IntRange(0, 3).Draw(t, "crowded") == 0 { // all but two kinds are taken
			var crowd []resource.Quantity
			for i := range resource.MaxKinds - w.idle - 2 {
				crowd = append(crowd, resource.Quantity{Name: fmt.Sprint("crowd/", i), Amount: 1})
			}
			w.store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "crowd", Max: crowd}})
		}
		crowded := w.store.Kinds() > w.idle
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			w.step(t)
			if crowded {
				if err := w.store.Verify(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			w.check(t)
		}
		w.store.Apply(facts.PodsListed{})
		w.store.Apply(facts.NodesListed{})
		w.store.Apply(facts.QueuesListed{})
		if err := w.store.Verify(); err != nil {
			t.Fatal(err)
		}
		if got := w.store.Kinds(); got != w.idle {
			t.Fatalf("all have gone, and there are %d kinds, %d before", got, w.idle)
		}
	})
}

// A pod of another scheduler that names resources which no node has is charged all else, and those too as soon as a node has them.
func TestUnknownResourcesAreChargedWhenTheyAppear(t *testing.T) {
	s := cluster.NewStore()
	node := func(more ...resource.Quantity) *facts.Node {
		return &facts.Node{Name: "n", Allocatable: append([]resource.Quantity{
			{Name: resource.NameCPU, Amount: 4000}, {Name: resource.NameMemory, Amount: 8 << 30}, {Name: resource.NamePods, Amount: 110},
		}, more...)}
	}
	s.Apply(facts.NodeUpserted{Node: node()})
	requests := []resource.Quantity{{Name: "new.example/kind", Amount: 3}, {Name: resource.NameCPU, Amount: 3900}, {Name: resource.NameMemory, Amount: 7 << 30}}
	for i := range 2 * resource.MaxKinds {
		requests = append(requests, resource.Quantity{Name: fmt.Sprint("made.up/", i), Amount: 1})
	}
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "daemon", Namespace: "x", Name: "daemon", Node: "n", Requirements: &facts.Requirements{Requests: requests}}})
	slot := s.Slot("n")
	if cpu, memory, pods := s.Requested(slot, resource.CPU), s.Requested(slot, resource.Memory), s.Requested(slot, resource.Pods); cpu != 3900 || memory != 7<<30 || pods != 1 {
		t.Errorf("charged are %d m CPU, %d bytes, %d pods", cpu, memory, pods)
	}
	kinds := s.Kinds()
	s.Apply(facts.NodeUpserted{Node: node(resource.Quantity{Name: "new.example/kind", Amount: 4})})
	if s.Kinds() != kinds+1 || s.Free(slot, resource.Kind(kinds)) != 1 {
		t.Errorf("%d kinds instead of %d and one, of which %d are free", s.Kinds(), kinds, s.Free(slot, resource.Kind(kinds)))
	}
	s.Apply(facts.NodeUpserted{Node: node()})
	if s.Kinds() != kinds || s.Requested(slot, resource.Kind(kinds)) != 0 {
		t.Errorf("no node has the resource any more, and there are %d kinds instead of %d", s.Kinds(), kinds)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// Requirements are visited with the pods that run or wait with them, and not when the last is gone.
func TestEachRequirements(t *testing.T) {
	s := cluster.NewStore()
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{{Name: "cpu", Amount: 8000}, {Name: "pods", Amount: 10}}}})
	requirements := func(cpu int64) *facts.Requirements {
		return &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: cpu}}}
	}
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "waits", Ours: true, Requirements: requirements(1000)}})
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "runs", Node: "n", Requirements: requirements(1000)}})
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "other", Node: "n", Requirements: requirements(2000)}})
	check := func(want map[int64]int) {
		t.Helper()
		seen := make(map[int64]int)
		s.EachRequirements(func(r *facts.Requirements, pods int) { seen[r.Requests[0].Amount] += pods })
		if len(seen) != len(want) {
			t.Errorf("saw %v, want %v", seen, want)
		}
		for cpu, pods := range want {
			if seen[cpu] != pods {
				t.Errorf("saw %v, want %v", seen, want)
			}
		}
	}
	check(map[int64]int{1000: 2, 2000: 1})
	s.Apply(facts.PodRemoved{UID: "other"})
	check(map[int64]int{1000: 2})
}
