package inspect_test

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/inspect"
)

// crowd is a scheduler with 1,000 queues in two levels, 5,000 full nodes, 100,000 pods on them and 20,000 in gangs of 20 that wait.
func crowd(b *testing.B) *schedule.Scheduler {
	b.Helper()
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(1000, 0)
	const queues, nodes, gangs = 1000, 5000, 1000
	for i := range queues {
		q := &facts.Queue{Name: fmt.Sprintf("q%04d", i), Weight: 1, Guaranteed: []resource.Quantity{{Name: "cpu", Amount: 1000}}}
		if i >= 50 {
			q.Parent = fmt.Sprintf("q%04d", i%50)
		}
		s.Apply(facts.QueueUpserted{Queue: q}, now)
	}
	var namespaces []facts.Namespace
	for i := range queues {
		namespaces = append(namespaces, facts.Namespace{Name: fmt.Sprint("ns", i), Labels: []facts.Label{{Key: spec.LabelQueue, Value: fmt.Sprintf("q%04d", i)}}})
	}
	s.Apply(facts.NamespacesListed{Namespaces: namespaces}, now)
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 500}}}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		s.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: name, Labels: map[string]string{facts.HostnameKey: name, "rack": fmt.Sprint("r", i/20)},
			Allocatable: []resource.Quantity{{Name: "cpu", Amount: 10_000}, {Name: "pods", Amount: 110}},
		}}, now)
		for k := range 20 {
			pod := fmt.Sprintf("p%04d-%d", i, k)
			s.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: facts.UID(pod), Namespace: fmt.Sprint("ns", (i+k)%queues), Name: pod, Node: name, Requirements: r,
			}}, now)
		}
	}
	for i := range gangs {
		name := facts.UnitName{Namespace: fmt.Sprint("ns", i%queues), Name: fmt.Sprint("g", i)}
		s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: name, UID: facts.UID(name.Name), MinMember: 20, Topology: facts.Packing{Required: "rack"}}}, now)
		for k := range 20 {
			pod := fmt.Sprint(name.Name, "-", k)
			s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(pod), Namespace: name.Namespace, Name: pod, Unit: name.Name, Ours: true, Requirements: r}}, now)
		}
	}
	return s
}

// BenchmarkViews times what is worked out in the scheduling loop (QueueStatuses, PendingPods, UnitCounts, Dump) and what is made beside it.
func BenchmarkViews(b *testing.B) {
	s := crowd(b)
	now := time.Unix(2000, 0)
	dump := inspect.Take(s, "hilbert", now)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"QueueStatuses", func() error { inspect.QueueStatuses(s.Store()); return nil }},
		{"PendingPods", func() error { inspect.PendingPods(s); return nil }},
		{"UnitCounts", func() error { inspect.UnitCounts(s); return nil }},
		{"Dump", func() error { inspect.Take(s, "hilbert", now); return nil }},
		{"View", func() error { _, err := dump.View(inspect.ViewOptions{Limit: 50}); return err }},
		{"ExplainUnit", func() error { _, err := dump.ExplainUnit("ns7", "g7"); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
