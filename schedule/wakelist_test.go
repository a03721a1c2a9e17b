package schedule

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// TestWakeOneByOne lets many queues wait for one node: what a pod leaves goes to those whose turn it is, without waking all of them, and no pod
// is forgotten, whatever is done to the tree meanwhile.
func TestWakeOneByOne(t *testing.T) {
	const queues = 3 * wakeAllUpTo
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	quantities := func(cores int64) []resource.Quantity {
		return []resource.Quantity{{Name: resource.NameCPU, Amount: cores * 1000}}
	}
	node := &facts.Node{Name: "n", Allocatable: append(quantities(queues), resource.Quantity{Name: resource.NamePods, Amount: 1000})}
	s.Apply(facts.NodeUpserted{Node: node}, now)
	for i := range queues { // the later ones have the greater weight, so that of equals who has less for it comes first
		name := fmt.Sprintf("q%02d", i)
		s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Weight: int64(i + 1)}}, now)
		s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}}}}, now)
	}
	requirements := &facts.Requirements{Requests: quantities(1)}
	pod := func(uid string, queue int, on string) facts.Pod {
		return facts.Pod{
			UID: facts.UID(uid), Name: uid, Namespace: fmt.Sprintf("q%02d", queue), Ours: on == "", Node: on, Requirements: requirements,
			NeverPreempts: true,
		}
	}
	for i := range queues {
		s.Apply(facts.PodUpserted{Pod: pod(fmt.Sprint("runs-", i), i, "n")}, now)
	}
	for i := range 2 * queues {
		s.Apply(facts.PodUpserted{Pod: pod(fmt.Sprint("waits-", i), i%queues, "")}, now)
	}
	if decisions := s.Step(now, 1000); decisions != queues || s.Pending().Unschedulable != 2*queues {
		t.Fatalf("%d decisions in a full cluster, one for each of %d queues are enough; %+v", decisions, queues, s.Pending())
	}
	placed := func() (list []string) {
		s.Store().EachPod(func(p *cluster.Pod) {
			if p.Phase == cluster.Assumed {
				list = append(list, p.Namespace)
			}
		})
		return list
	}
	// Each queue has one core. The greater its weight the less that is.
	s.Apply(facts.PodRemoved{UID: "runs-0"}, now)
	if decisions := s.Step(now, 1000); decisions != 2 { // the next of the same queue finds it gone
		t.Errorf("%d decisions about room for one", decisions)
	}
	if list := placed(); len(list) != 1 || list[0] != "q00" { // it holds nothing now
		t.Errorf("the room went to %v", list)
	}
	for _, uid := range []facts.UID{"runs-7", "runs-8"} {
		s.Apply(facts.PodRemoved{UID: uid}, now)
	}
	if decisions := s.Step(now, 1); decisions != 1 {
		t.Errorf("%d decisions", decisions)
	}
	// The tree is planted anew while some still have hope.
	s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "q01", Weight: 1000}}, now)
	s.Step(now, 1000)
	if list := placed(); len(list) != 3 {
		t.Errorf("%d of 3 have the room: %v", len(list), list)
	}
	// Room for more than it is worth to ask about.
	for i := range queues {
		s.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint("runs-", i))}, now)
	}
	s.Step(now, 1000)
	if list := placed(); len(list) != queues {
		t.Errorf("%d of %d have the room", len(list), queues)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// TestWakeListHasNoDuplicates: while the binder takes no further Plan, each node that gets room lets the same shape queues be found again.
func TestWakeListHasNoDuplicates(t *testing.T) {
	const queues = 3 * wakeAllUpTo
	cfg := spec.Default().Scheduling
	cfg.Binding.MaxAhead = 1
	s, err := New(Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	one := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}}}
	node := func(name string, cores int64) {
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 1000 * cores}, {Name: resource.NamePods, Amount: 100},
		}}}, now)
	}
	pod := func(uid string, q int) {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(uid), Name: uid, Namespace: fmt.Sprint("q", q), Ours: true, Requirements: one, NeverPreempts: true,
		}}, now)
	}
	for i := range queues {
		name := fmt.Sprint("q", i)
		s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Weight: 1}}, now)
		s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}}}}, now)
	}
	node("full", 0)
	for i := range queues {
		pod(fmt.Sprint("waits-", i), i)
	}
	s.Step(now, 1000)
	node("first", 1)
	s.Step(now, 1000) // one is placed, and its Binding is not handed out: no further decision may be made
	for i := range 5 {
		node(fmt.Sprint("more-", i), 1)
		if decisions := s.Step(now, 1000); decisions > 0 {
			t.Fatalf("%d decisions, though the binder is full", decisions)
		}
	}
	if n := len(s.blocked.wakes.queues); n == 0 || n > queues {
		t.Errorf("%d shape queues are listed, of %d", n, queues)
	}
}
