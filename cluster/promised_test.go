package cluster_test

import (
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// promising is a node with 4 CPUs of which the parser says that they may be promised.
func promising() facts.NodeUpserted {
	return facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{{Name: "cpu", Amount: 4000}, {Name: facts.PromisedCPU, Amount: 4000}, {Name: "pods", Amount: 10}}}}
}

func overcommitted(extra int64, percent int) facts.Event {
	return facts.NodeReported{Node: "n", Report: &facts.NodeReport{Overcommit: facts.Overcommit{ExtraCPU: extra, Percent: percent}}}
}

// A node takes as much CPU as pods asked for as its report allows, within the percent; where the report no longer allows it, nothing leaves, and nothing comes.
func TestPromisedCPU(t *testing.T) {
	s := cluster.NewStore()
	lowered := func(uid facts.UID) facts.PodUpserted {
		return facts.PodUpserted{Pod: facts.Pod{UID: uid, Node: "n", Requirements: &facts.Requirements{
			Requests: []resource.Quantity{{Name: "cpu", Amount: 1000}, {Name: facts.PromisedCPU, Amount: 2000}},
		}}}
	}
	class := func() *cluster.Class { return s.Class(lowered("").Pod.Requirements) }
	for i, step := range []struct {
		event facts.Event
		free  int64
		fits  bool
	}{
		{promising(), 4000, true},
		{lowered("a"), 2000, true},
		{overcommitted(2000, 150), 4000, true},
		{lowered("b"), 2000, true},
		{lowered("c"), 0, false},
		{overcommitted(4000, 150), 0, false}, // the percent bounds what an agent says
		{overcommitted(4000, 200), 2000, true},
		{overcommitted(1000, 125), -1000, false}, // harm: those that run stay
		{facts.NodeReported{Node: "n"}, -2000, false},
		{facts.PodRemoved{UID: "b"}, 0, false},
		{promising(), 0, false},
		{facts.PodRemoved{UID: "c"}, 2000, true},
		{overcommitted(-5, 150), 2000, true},
		{overcommitted(5, 50), 2000, true},
	} {
		s.Apply(step.event)
		if err := s.Verify(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		slot, kind := s.Slot("n"), resource.Kind(-1)
		for k := range s.Kinds() {
			if s.KindName(resource.Kind(k)) == facts.PromisedCPU {
				kind = resource.Kind(k)
			}
		}
		if kind < 0 {
			t.Fatalf("step %d: nothing may be promised", i)
		}
		fits := true
		for _, a := range class().Amounts {
			fits = fits && !s.Lacks(slot, class(), a)
		}
		if free := s.Free(slot, kind); free != step.free || fits != step.fits {
			t.Errorf("step %d: %d free, a further pod fits: %t; want %d and %t", i, free, fits, step.free, step.fits)
		}
	}
}
