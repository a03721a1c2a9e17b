package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/admit"
)

// One pod that names 520 made-up resources once took all kinds: the resources of nodes that came later could not be had, and pods of others that named
// them were charged nothing.
func TestMadeUpResourcesTakeNoKinds(t *testing.T) {
	for _, gated := range []bool{true, false} {
		s := newSched(t)
		now := time.Unix(1000, 0)
		const gi = 1 << 30
		var many []resource.Quantity
		for i := range 520 {
			many = append(many, resource.Quantity{Name: fmt.Sprintf("evil.example/r%d", i), Amount: 1})
		}
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: "evil", Namespace: "ns", Name: "evil", Ours: true, Gated: gated, Requirements: &facts.Requirements{Requests: many},
		}}, now)
		n := revNode("n1", 4000, 8*gi)
		n.Allocatable = append(n.Allocatable, resource.Quantity{Name: "hugepages-2Mi", Amount: gi})
		s.Apply(facts.NodeUpserted{Node: n}, now)
		s.Apply(facts.NodeUpserted{Node: revNode("n2", 100, gi)}, now)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: "ds", Namespace: "kube-system", Name: "ds", Node: "n1",
			Requirements: &facts.Requirements{Requests: rq("cpu", 3900, "memory", 7*gi, "hugepages-2Mi", gi/2)},
		}}, now)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: "hp", Namespace: "x", Name: "hp", Ours: true, Created: 1, Requirements: &facts.Requirements{Requests: rq("cpu", 100, "hugepages-2Mi", 2<<20)},
		}}, now)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: "big", Namespace: "x", Name: "big", Ours: true, Created: 1, Requirements: &facts.Requirements{Requests: rq("cpu", 4000)},
		}}, now)
		pump(s, now)
		st := s.Store()
		if hp, big := st.Pod("hp").Node(), st.Pod("big").Node(); hp != "n1" || big != "" {
			t.Errorf("gated %v: the pod with huge pages is on %q, want n1; that of 4 CPUs on %q, want none", gated, hp, big)
		}
		if err := s.Verify(); err != nil {
			t.Error(err)
		}
	}
}

// A pod that asks for what no node has is told so by name, and placed when a node with it comes; a gang too.
func TestPodWaitsForItsResource(t *testing.T) {
	s := newSched(t)
	now := time.Unix(1000, 0)
	s.Apply(facts.NodeUpserted{Node: revNode("n1", 4000, 1<<30)}, now)
	s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: "gang"}, MinMember: 2}}, now)
	for i, unit := range []string{"", "gang", "gang"} {
		name := fmt.Sprint("p", i)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "ns", Name: name, Ours: true, Created: 1, Unit: unit,
			Requirements: &facts.Requirements{Requests: rq("cpu", 100, "example.com/fpga", 1)},
		}}, now)
	}
	pump(s, now)
	condition, refused := admit.Refuse(s.Store().Pod("p0"))
	if !refused || condition.Reason != spec.ReasonUnschedulable || !strings.Contains(condition.Message, "no node has any example.com/fpga") {
		t.Errorf("refused %v: %+v", refused, condition)
	}
	n := revNode("n2", 4000, 1<<30)
	n.Allocatable = append(n.Allocatable, resource.Quantity{Name: "example.com/fpga", Amount: 3})
	now = now.Add(time.Second)
	s.Apply(facts.NodeUpserted{Node: n}, now)
	pump(s, now)
	if on := placedOn(s, "n2"); on != 3 {
		t.Errorf("%d of 3 pods are on the node that has the resource", on)
	}
	s.Apply(facts.NodeRemoved{Name: "n2"}, now)
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// A resource that comes back has another kind than before; what was known of pods of that size is then about another resource.
func TestResourceComesBackWithAnotherKind(t *testing.T) {
	s := newSched(t)
	now := time.Unix(1000, 0)
	with := func(node, name string) {
		n := revNode(node, 4000, 1<<30)
		n.Allocatable = append(n.Allocatable, resource.Quantity{Name: name, Amount: 9})
		s.Apply(facts.NodeUpserted{Node: n}, now)
	}
	pod := func(name string) {
		now = now.Add(time.Second)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "ns", Name: name, Ours: true, Created: 1, Requirements: &facts.Requirements{Requests: rq("cpu", 100, "example.com/a", 1)},
		}}, now)
		pump(s, now)
	}
	with("n1", "example.com/a")
	pod("first")
	if on := placedOn(s, "n1"); on != 1 {
		t.Fatalf("%d pods are placed, want 1", on)
	}
	s.Apply(facts.NodeRemoved{Name: "n1"}, now)
	for i := range 8 {
		with(fmt.Sprint("b", i), "example.com/b")
	}
	with("n2", "example.com/a")
	pod("second")
	if on := placedOn(s, "n2"); on != 1 {
		t.Errorf("the pod is on %q, want n2", s.Store().Pod("second").Node())
	}
}
