package schedule_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
)

func TestRevOverdueGangs(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	runtime.LockOSThread()
	for _, c := range []struct{ nodes, gangs int }{{5000, 300}, {20000, 300}} {
		s := newSched(t)
		now := time.Unix(1000, 0)
		var list []*facts.Node
		for i := range c.nodes {
			list = append(list, revNode(fmt.Sprintf("node-%d", i), 64000, 256<<30))
		}
		s.Apply(facts.NodesListed{Nodes: list}, now)
		var pods []facts.Pod
		for i := range c.nodes {
			for j := range 10 {
				pods = append(pods, facts.Pod{UID: facts.UID(fmt.Sprintf("f%d-%d", i, j)), Namespace: "x", Name: "f", Node: fmt.Sprintf("node-%d", i), Requirements: &facts.Requirements{Requests: rq("cpu", 1000, "memory", 1<<30)}})
			}
		}
		s.Apply(facts.PodsListed{Pods: pods}, now)

		for g := range c.gangs {
			name := fmt.Sprintf("g%d", g)
			r := &facts.Requirements{Requests: rq("cpu", 65000+g)}
			s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: name}, UID: facts.UID(name), MinMember: 2, Created: now.UnixNano()}}, now)
			for i := range 2 {
				s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprintf("%s-%d", name, i)), Namespace: "ns", Name: name, Ours: true, Unit: name, Created: now.UnixNano(), Requirements: r}}, now)
			}
		}
		began := cpuTime()
		d := s.Step(now, 100000)
		first := (cpuTime() - began)
		_ = s.Ready(now)
		now = now.Add(31 * time.Second)
		began = cpuTime()
		s.Step(now, 128)
		second := (cpuTime() - began)
		// something changes; reserveEvery passes
		now = now.Add(4 * time.Second)
		s.Apply(facts.PodRemoved{UID: "f3-3"}, now)
		began = cpuTime()
		s.Step(now, 128)
		third := (cpuTime() - began)
		t.Logf("%d nodes, %d gangs of one shape that no node can hold: first Step %v (%d decisions); Step after 31s %v; Step 4s later, one pod gone: %v", c.nodes, c.gangs, first, d, second, third)
	}
}
