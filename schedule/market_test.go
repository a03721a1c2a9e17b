package schedule

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// The market hears of each pod once, however often it is told of, and of those that are listed; prices are found by Step.
func TestArrivalsAreCountedOnce(t *testing.T) {
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(100, 0)
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", GPU: topology.Shape{GPUs: 8, Model: "A", Shareable: true}}}, now)
	seen := func(i int) facts.Pod {
		return facts.Pod{UID: facts.UID(fmt.Sprint(i)), Name: fmt.Sprint(i), Ours: true, Gated: i < 15, Requirements: &facts.Requirements{GPU: topology.Request{Milli: 500}}}
	}
	var list []facts.Pod
	for i := range 15 {
		list = append(list, seen(i))
		for range 3 {
			s.Apply(facts.PodUpserted{Pod: seen(i)}, now)
		}
	}
	s.Apply(facts.PodsListed{Pods: list}, now)
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "plain", Requirements: &facts.Requirements{}}}, now)
	for i, change := range []func(*facts.Pod){
		func(f *facts.Pod) { f.Finished = true }, func(f *facts.Pod) { f.Ours = false }, func(f *facts.Pod) { f.Deleting = true },
	} {
		other := seen(99 + i)
		change(&other)
		s.Apply(facts.PodUpserted{Pod: other}, now)
	}
	if s.Step(now, 1); s.market.Due() || s.market.Revision() != 0 {
		t.Fatalf("15 pods that ask for GPUs make price list %d", s.market.Revision())
	}
	s.Apply(facts.PodsListed{Pods: append(list, seen(15))}, now)
	if s.Step(now, 1); s.market.Revision() != 1 {
		t.Fatalf("16 pods make price list %d", s.market.Revision())
	}
	c := s.Config()
	c.Conditions.MinInterval++
	if err := s.Reconfigure(c, now); err != nil || s.blocked.explanations.interval != c.Conditions.MinInterval.D() {
		t.Errorf("explanations go by the old interval: %v", err)
	}
	if err := s.Reconfigure(c, now); err != nil || s.decisions.instances[0].placers.Set().Market() != s.market {
		t.Errorf("other settings have forgotten the prices: %v", err)
	}
}
