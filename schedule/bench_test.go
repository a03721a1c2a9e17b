package schedule

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

// BenchmarkPipeline measures one pod's whole way through the core: event, queue, decision, commit, write out, result in, and its removal,
// at a level load. Swept over nodes and classes.
func BenchmarkPipeline(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 20000} {
		for _, classes := range []int{1, 16, 100} {
			b.Run(fmt.Sprintf("nodes=%d/classes=%d", nodes, classes), func(b *testing.B) { benchmarkPipeline(b, nodes, classes) })
		}
	}
}

func benchmarkPipeline(b *testing.B, nodes, classes int) {
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(0, 0)
	for i := range nodes {
		s.Apply(facts.NodeUpserted{Node: benchNode(i)}, now)
	}
	requirements := make([]*facts.Requirements, classes)
	for i := range requirements {
		requirements[i] = benchRequirements(i)
	}
	live := nodes * 8
	pod := 0
	one := func() {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(fmt.Sprint(pod)), Ours: true, Created: int64(pod), Requirements: requirements[pod*7919%classes],
		}}, now)
		if pod >= live {
			s.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(pod - live))}, now)
		}
		pod++
		s.Step(now, 16)
		for _, w := range s.Ready(now) {
			s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written}, now)
		}
	}
	for range live {
		one()
	}
	if p := s.Pending(); p.InFlight+p.Active+p.Unschedulable > 0 {
		b.Fatalf("the fill left pods behind: %+v", p)
	}
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
}

func benchNode(i int) *facts.Node {
	return &facts.Node{
		Name:   fmt.Sprintf("node-%05d", i),
		Labels: map[string]string{"kubernetes.io/hostname": fmt.Sprintf("node-%05d", i), "zone": string(rune('a' + i%3))},
		Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 32000 + int64(i%7)*4000},
			{Name: resource.NameMemory, Amount: (128 + int64(i%5)*32) << 30},
			{Name: resource.NamePods, Amount: 110},
		},
	}
}

func benchRequirements(i int) *facts.Requirements {
	cpu, memory := 500+int64(i%8)*250, int64(1+i%6)<<30
	r := &facts.Requirements{
		Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: memory}},
		ScoreCPU: cpu, ScoreMemory: memory,
		Tolerations: []facts.Toleration{{Key: fmt.Sprint("team-", i), Exists: true}},
	}
	if i%4 == 1 {
		r.NodeSelector = []facts.Label{{Key: "zone", Value: "b"}}
	}
	return r
}
