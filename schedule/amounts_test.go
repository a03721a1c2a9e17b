package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
)

// Two pods of 5 Ei that others have bound once made what a queue uses, and what a node has left, wrap round: fifty pods of 4 Gi were put on a node of
// 8 Gi.
func TestAbsurdForeignPodsMakeNoRoom(t *testing.T) {
	s := newSched(t)
	now := time.Unix(1000, 0)
	const gi = 1 << 30
	s.Apply(facts.NodeUpserted{Node: revNode("n1", 4000, 8*gi)}, now)
	s.Apply(facts.NodeUpserted{Node: revNode("n2", 4000, 8*gi)}, now)
	s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "q", Weight: 1, Max: rq("memory", 64*gi)}}, now)
	s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "ns", Labels: []facts.Label{{Key: spec.LabelQueue, Value: "q"}}}}, now)
	for i := range 2 {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(fmt.Sprint("absurd", i)), Namespace: "other", Name: fmt.Sprint("absurd", i), Node: "n1",
			Requirements: &facts.Requirements{Requests: rq("memory", 5<<60)},
		}}, now)
	}
	for i := range 50 {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(fmt.Sprint("p", i)), Namespace: "ns", Name: fmt.Sprint("p", i), Ours: true, Created: 1,
			Requirements: &facts.Requirements{Requests: rq("memory", 4*gi)},
		}}, now)
	}
	pump(s, now)
	if on := placedOn(s, "n1"); on != 0 {
		t.Errorf("%d pods are on a node that is full many times over", on)
	}
	if on := placedOn(s, "n2"); on != 2 {
		t.Errorf("%d pods of 4 Gi are on a node of 8 Gi, want 2", on)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	s.Apply(facts.PodRemoved{UID: "absurd0"}, now)
	s.Apply(facts.PodRemoved{UID: "absurd1"}, now)
	pump(s, now)
	if on := placedOn(s, "n1"); on != 2 {
		t.Errorf("the absurd pods have left, and %d pods are on their node, want 2", on)
	}
}

// A pod of ours that asks for more than any node can have is told so.
func TestAbsurdRequestIsRefused(t *testing.T) {
	s := newSched(t)
	now := time.Unix(1000, 0)
	s.Apply(facts.NodeUpserted{Node: revNode("n1", 4000, 1<<62)}, now)
	s.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "p", Namespace: "ns", Name: "p", Ours: true, Requirements: &facts.Requirements{Requests: rq("memory", resource.MaxAmount+1)},
	}}, now)
	pump(s, now)
	if pod := s.Store().Pod("p"); pod.Phase != cluster.Pending || !strings.Contains(pod.Refusal(), `resource "memory"`) {
		t.Errorf("it is %s, refused because %q", pod.Phase, pod.Refusal())
	}
}

func placedOn(s *schedule.Scheduler, node string) (n int) {
	s.Store().EachPod(func(p *cluster.Pod) {
		if p.Ours && p.Node() == node {
			n++
		}
	})
	return n
}
