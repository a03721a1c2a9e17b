package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

// TestBorrowersWakeFew: a queue comes to borrow while 40 shapes of another one sleep that may evict its pods. Each look wakes 16 at most, and each shape once.
func TestBorrowersWakeFew(t *testing.T) {
	t.Parallel()
	s, now := newSched(t), time.Unix(1000, 0)
	for _, name := range []string{"a", "b", "c"} {
		q := &facts.Queue{Name: name, Weight: 1}
		if name == "b" {
			q.Guaranteed = rq("cpu", 4)
		}
		s.Apply(facts.QueueUpserted{Queue: q}, now)
		s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}}}}, now)
	}
	s.Apply(facts.NodeUpserted{Node: revNode("full", 4, 10)}, now)
	s.Apply(facts.NodeUpserted{Node: revNode("small", 4, 10)}, now)
	pod := func(uid, ns, node string, cpu int, priority int32) {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(uid), Namespace: ns, Name: uid, Ours: true, Node: node, Priority: priority, Requirements: &facts.Requirements{Requests: rq("cpu", cpu)},
		}}, now)
	}
	pod("b", "b", "full", 4, 1)
	for i := range 40 {
		pod(fmt.Sprint("a", i), "a", "", 5+i, 9) // more than a node has: whoever leaves
	}
	pump(s, now)
	look := func(want ...int) {
		t.Helper()
		for i, n := range want {
			now = now.Add(5 * time.Second)
			if got := s.Step(now, 1000); got != n {
				t.Errorf("look %d: %d decisions, want %d", i, got, n)
			}
		}
	}
	look(0, 0)
	pod("more", "b", "", 2, 1)
	look(1, 16, 16, 8, 0, 0) // the pod has its place at first
	pod("free", "c", "", 2, 1)
	look(1, 0, 0) // c is guaranteed nothing: what it uses was borrowed before, too
}
