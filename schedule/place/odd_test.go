package place

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// oddWorld is a few nodes with the label disk, and a Placer.
func oddWorld(t *testing.T) *world {
	profile, err := rules.NewProfile(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: cluster.NewStore(), snapshot: cluster.NewSnapshot()}
	w.placer = NewPlacer(w.snapshot, profile, 7, 4)
	for i := range 4 {
		w.store.Apply(facts.NodeUpserted{Node: oddNode(i, "disk", fmt.Sprint(i))})
	}
	return w
}

func oddNode(i int, key, value string) *facts.Node {
	return &facts.Node{Name: fmt.Sprint("n", i), Labels: map[string]string{key: value}, Allocatable: quantities("cpu", 8000, "memory", 1<<30, "pods", 10)}
}

// lacks stands for the value of a label that a node must not have.
const lacks = "(none)"

// expect compares where a pod with a node selector goes with brute force.
func (w *world) expect(t *testing.T, node string, selector ...facts.Label) {
	t.Helper()
	r := &facts.Requirements{Requests: quantities("cpu", 100)}
	for _, l := range selector {
		if l.Value == lacks {
			r.Required = []facts.Term{{Expressions: []facts.Requirement{{Key: l.Key, Operator: facts.DoesNotExist}}}}
		} else {
			r.NodeSelector = append(r.NodeSelector, l)
		}
	}
	class := w.store.Class(r)
	w.snapshot.Advance(w.store)
	choice, ok := w.placer.Place(class)
	if choice.Slot != w.placer.Best(class) || ok != (node != "") || ok && w.snapshot.Node(choice.Slot).Name != node {
		t.Fatalf("%v goes to slot %d, brute force says %d; want %q", selector, choice.Slot, w.placer.Best(class), node)
	}
}

// TestLabelComesLater: a pod selects by a label that no node has, and then a node has it.
func TestLabelComesLater(t *testing.T) {
	w := oddWorld(t)
	w.store.Apply(facts.NodeUpserted{Node: oddNode(1, "disk", "2")}) // like n2, and before it
	w.expect(t, "n3", facts.Label{Key: "disk", Value: "3"})
	w.expect(t, "", facts.Label{Key: "later", Value: "x"})
	both := oddNode(2, "disk", "2")
	both.Labels["later"] = "x"
	w.store.Apply(facts.NodeUpserted{Node: both})
	w.expect(t, "n2", facts.Label{Key: "later", Value: "x"})
	w.store.Apply(facts.NodeUpserted{Node: oddNode(4, "later", "y")})
	w.expect(t, "n4", facts.Label{Key: "later", Value: "y"})
}

// TestMadeUpLabels: however many labels pods make up, nothing that is learned of real ones is lost by halves.
func TestMadeUpLabels(t *testing.T) {
	w := oddWorld(t)
	for i := range 1<<12 + 2 {
		w.expect(t, "n1", facts.Label{Key: "disk", Value: "1"}, facts.Label{Key: fmt.Sprint("made-up-", i), Value: lacks})
	}
	w.expect(t, "n1", facts.Label{Key: "disk", Value: "1"})
	w.store.Apply(facts.NodeUpserted{Node: &facts.Node{
		Name: "n5", Labels: map[string]string{"disk": "5", "new": "x"}, Allocatable: quantities("cpu", 8000, "memory", 1<<30, "pods", 10),
	}})
	w.expect(t, "n5", facts.Label{Key: "disk", Value: "5"}, facts.Label{Key: "new", Value: "x"})
	for i := range 40 { // more labels than may tell node classes apart
		key := fmt.Sprint("real-", i)
		w.store.Apply(facts.NodeUpserted{Node: oddNode(6+i, key, "x")})
		w.expect(t, fmt.Sprint("n", 6+i), facts.Label{Key: key, Value: "x"})
	}
	w.expect(t, "n1", facts.Label{Key: "disk", Value: "1"})
}

// TestTakenPortCounts: a pod prefers disk 0 by far, and its host port is taken there. What it prefers next must score as the best that is feasible: a
// search that takes a node for feasible because cpu and memory fit would score it low.
func TestTakenPortCounts(t *testing.T) {
	w := oddWorld(t)
	w.placer.SetUsesBeforeIndex(1000)
	pod := func(uid, node string, r *facts.Requirements) *cluster.Class {
		w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(uid), Node: node, Ours: true, Requirements: r}})
		return w.store.Pod(facts.UID(uid)).Class
	}
	ports := []facts.HostPort{{Protocol: "TCP", IP: facts.AnyIP, Port: 80}}
	pod("taken", "n0", &facts.Requirements{Requests: quantities("cpu", 100), Ports: ports})
	pod("load", "n1", &facts.Requirements{Requests: quantities("cpu", 4000, "memory", 1<<29), ScoreCPU: 4000, ScoreMemory: 1 << 29})
	r := &facts.Requirements{Requests: quantities("cpu", 100), Ports: ports}
	for disk, weight := range []int32{100, 10} {
		r.Preferred = append(r.Preferred, facts.WeightedTerm{Weight: weight, Term: facts.Term{
			Expressions: []facts.Requirement{{Key: "disk", Operator: facts.In, Values: []string{fmt.Sprint(disk)}}},
		}})
	}
	class := pod("pod", "", r)
	w.snapshot.Advance(w.store)
	choice, ok := w.placer.Place(class)
	if !ok || w.snapshot.Node(choice.Slot).Name != "n1" || choice.Slot != w.placer.Best(class) {
		t.Fatalf("the pod goes to slot %d, brute force says %d; want n1", choice.Slot, w.placer.Best(class))
	}
}
