package bench

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
)

// BenchmarkRetry is what 10,000 pods of 10 classes that fit nowhere cost when something happens that cannot help them: one op is the event
// and the scheduler's next step.
func BenchmarkRetry(b *testing.B) {
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(0, 0)
	scenario := Scenario{Nodes: 5000, Classes: 10, Case: Basic, Fill: 60, Seed: 42}
	nodes := scenario.GenerateNodes()
	for i := range nodes {
		s.Apply(facts.NodeUpserted{Node: nodes[i].ClusterNode()}, now)
	}
	for i := range 10_000 {
		cpu := 1_000_000 + int64(i%10)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: PodUID(i), Ours: true, Created: int64(i), NeverPreempts: true, Requirements: &facts.Requirements{
				Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}}, ScoreCPU: cpu,
			},
		}}, now)
	}
	for s.Step(now, 1000) > 0 { // until all that can be decided has been
	}
	if p := s.Pending(); p.Unschedulable != 10_000 {
		b.Fatalf("%+v: want all pods to fit nowhere", p)
	}
	foreign := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 100}}, ScoreCPU: 100}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		// Somebody else's pod comes and goes: a change on a node, and room that helps nobody.
		uid := facts.UID(fmt.Sprint("foreign-", i/2%64))
		if i%2 == 0 {
			s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Node: nodes[i%len(nodes)].Name, Requirements: foreign}}, now)
		} else {
			s.Apply(facts.PodRemoved{UID: uid}, now)
		}
		i++
		if decided := s.Step(now, 1000); decided > 0 {
			b.Fatalf("%d pods were tried again", decided)
		}
	}
}
