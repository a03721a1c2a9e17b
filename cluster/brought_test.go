package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

const fpga = "example.com/fpga"

func quantities(amount int64) []resource.Quantity {
	if amount < 0 {
		return nil
	}
	return []resource.Quantity{{Name: fpga, Amount: amount}}
}

func bringing(amount int64) facts.Event {
	return facts.NodeReported{Node: "n", Report: &facts.NodeReport{Resources: quantities(amount)}}
}

// left is how much of the resource pods may yet request of node n; "none" where the resource has no column.
func left(t *testing.T, s *cluster.Store) string {
	t.Helper()
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	for kind := range s.Kinds() {
		if s.KindName(resource.Kind(kind)) == fpga && s.Slot("n") != cluster.NoSlot {
			return fmt.Sprint(s.Free(s.Slot("n"), resource.Kind(kind)))
		}
	}
	return "none"
}

func TestPluginsBringResources(t *testing.T) {
	node := facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{{Name: "cpu", Amount: 4000}, {Name: "pods", Amount: 10}}}}
	pod := facts.PodUpserted{Pod: facts.Pod{UID: "p", Node: "n", Requirements: &facts.Requirements{Requests: quantities(1)}}}
	second := facts.PodUpserted{Pod: facts.Pod{UID: "q", Node: "n", Requirements: &facts.Requirements{Requests: quantities(1)}}}
	own := facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{{Name: "cpu", Amount: 4000}, {Name: "pods", Amount: 10}, {Name: fpga, Amount: 7}}}}
	s := cluster.NewStore()
	for i, step := range []struct {
		event facts.Event
		left  string
	}{
		{node, "none"},
		{bringing(2), "2"},
		{pod, "1"},
		{bringing(4), "3"},
		{bringing(1), "0"},
		{bringing(0), "none"}, // a plugin that brings less takes nothing from who runs
		{second, "none"},
		{bringing(1), "-1"},
		{facts.PodRemoved{UID: "q"}, "0"},
		{bringing(-1), "none"}, // it is stale, or the agent has gone: nothing is given, and what runs stays
		{bringing(2), "1"},
		{own, "6"}, // a device plugin brings it too: the node's word goes first
		{node, "1"},
		{facts.NodeReportRemoved{Node: "n"}, "none"},
		{bringing(2), "1"},
		{facts.NodeRemoved{Name: "n"}, "none"},
		{node, "1"},
	} {
		s.Apply(step.event)
		if got := left(t, s); got != step.left {
			t.Fatalf("step %d, %T: %s left; want %s", i, step.event, got, step.left)
		}
		if over := s.Overcommitted(); len(over) > 0 {
			t.Fatalf("step %d: %v count as overcommitted", i, over)
		}
		loaded, err := cluster.Load(s.Dump())
		if err != nil {
			t.Fatal(err)
		}
		if got := left(t, loaded); got != step.left {
			t.Fatalf("step %d: loaded from a dump, %s are left; want %s", i, got, step.left)
		}
		loaded.Apply(bringing(-1))
		if got := left(t, loaded); got != "none" && step.left != "6" {
			t.Fatalf("step %d: loaded from a dump, and the report says no more, %s are left", i, got)
		}
	}
}

// Whatever the order of node, report and pods, the same is left.
func TestBroughtDoesNotDependOnOrder(t *testing.T) {
	events := []facts.Event{
		facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{{Name: "cpu", Amount: 4000}, {Name: "pods", Amount: 10}}}},
		bringing(5),
		facts.PodUpserted{Pod: facts.Pod{UID: "p", Node: "n", Requirements: &facts.Requirements{Requests: quantities(1)}}},
		facts.PodUpserted{Pod: facts.Pod{UID: "q", Node: "n", Requirements: &facts.Requirements{Requests: quantities(2)}}},
	}
	random := rand.New(rand.NewPCG(1, 0))
	for range 100 {
		random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		s := cluster.NewStore()
		for _, e := range events {
			s.Apply(e)
		}
		if got := left(t, s); got != "2" {
			t.Fatalf("%s left; want 2", got)
		}
	}
}
