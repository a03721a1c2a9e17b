package schedule

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/topology"
)

// The market hears of each pod once, however often it is told of, and of those that are listed; prices are found by Step.
func TestArrivalsAreCountedOnce(t *testing.T) {
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(100, 0)
	s.Apply(cluster.NodeUpserted{Node: &cluster.Node{Name: "n", GPU: topology.Shape{GPUs: 8, Model: "A", Shareable: true}}}, now)
	facts := func(i int) cluster.PodFacts {
		return cluster.PodFacts{UID: cluster.UID(fmt.Sprint(i)), Name: fmt.Sprint(i), Ours: true, Gated: i < 15, Requirements: &cluster.Requirements{GPU: topology.Request{Milli: 500}}}
	}
	var list []cluster.PodFacts
	for i := range 15 {
		list = append(list, facts(i))
		for range 3 {
			s.Apply(cluster.PodUpserted{Pod: facts(i)}, now)
		}
	}
	s.Apply(cluster.PodsListed{Pods: list}, now)
	s.Apply(cluster.PodUpserted{Pod: cluster.PodFacts{UID: "plain", Requirements: &cluster.Requirements{}}}, now)
	for i, change := range []func(*cluster.PodFacts){
		func(f *cluster.PodFacts) { f.Finished = true }, func(f *cluster.PodFacts) { f.Ours = false }, func(f *cluster.PodFacts) { f.Deleting = true },
	} {
		other := facts(99 + i)
		change(&other)
		s.Apply(cluster.PodUpserted{Pod: other}, now)
	}
	if s.Step(now, 1); s.market.Due() || s.market.Revision() != 0 {
		t.Fatalf("15 pods that ask for GPUs make price list %d", s.market.Revision())
	}
	s.Apply(cluster.PodsListed{Pods: append(list, facts(15))}, now)
	if s.Step(now, 1); s.market.Revision() != 1 {
		t.Fatalf("16 pods make price list %d", s.market.Revision())
	}
}
