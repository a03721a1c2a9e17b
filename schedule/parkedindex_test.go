package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/queue"
	"hilbert.dev/hilbert/topology"
)

// drawRequirements draws what a pod asks for: amounts over several octaves, and ways to name nodes.
func drawRequirements(t *rapid.T) *facts.Requirements {
	r := &facts.Requirements{Requests: []resource.Quantity{
		{Name: resource.NameCPU, Amount: rapid.SampledFrom([]int64{0, 1, 900, 1000, 1100, 3050, 4000, 7000}).Draw(t, "cpu")},
		{Name: resource.NameMemory, Amount: rapid.SampledFrom([]int64{0, 1 << 29, 1 << 30, 1<<30 + 1, 8 << 30}).Draw(t, "memory")},
	}}
	value := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "value"))
	in := func(key string) []facts.Requirement {
		return []facts.Requirement{{Key: key, Operator: facts.In, Values: []string{value}}}
	}
	switch rapid.IntRange(0, 5).Draw(t, "names nodes") {
	case 0:
		r.NodeSelector = []facts.Label{{Key: "pool", Value: value}}
	case 1:
		r.Required = []facts.Term{{Expressions: in("pool")}}
	case 2:
		r.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{"n" + value}}}}}
	case 3:
		r.Required = []facts.Term{{Expressions: in("pool")}, {Expressions: in("other")}}
	case 4:
		r.GPU = topology.Request{Milli: 500}
	}
	return r
}

// TestHelpedVisitsAllThatFit files shape queues of pods and gangs that sleep, and visits those that a node may help. Whatever has room on the node, or would
// have it without pods of lower priority, is among them.
func TestHelpedVisitsAllThatFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := cluster.NewStore()
		for i := range 3 {
			node := &facts.Node{
				Name: fmt.Sprint("n", i), Labels: map[string]string{"pool": fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "pool")), "other": fmt.Sprint(i)},
				Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 4000}, {Name: resource.NameMemory, Amount: 4 << 30}, {Name: resource.NamePods, Amount: 10}},
			}
			if rapid.Bool().Draw(t, "gpus") {
				node.GPU = topology.Shape{GPUs: 1, Shareable: true}
			}
			store.Apply(facts.NodeUpserted{Node: node})
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
			uid := facts.UID(fmt.Sprint("f", i))
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: uid, Namespace: "x", Name: string(uid), Node: fmt.Sprint("n", i%3), Priority: int32(rapid.IntRange(0, 2).Draw(t, "priority")),
				Requirements: drawRequirements(t),
			}})
		}
		q := queue.New(store)
		x := newParkedIndex()
		wanted := map[*queue.ShapeQueue]int32{}
		for i := range rapid.IntRange(1, 12).Draw(t, "units") {
			sq := sleep(t, store, q, i)
			if sq == nil {
				continue
			}
			priority := int32(rapid.IntRange(-1, 2).Draw(t, "wanted"))
			wanted[sq] = priority
			x.add(sq, queue.Version{}, priority >= 0, max(priority, 0))
		}
		for slot := range cluster.Slot(3) {
			visited := map[*queue.ShapeQueue]bool{}
			x.helped(store, slot, func(p *parked) { visited[p.sq] = true })
			for sq, priority := range wanted {
				if !visited[sq] && mayHelp(store, slot, sq, priority) {
					t.Fatalf("node %d has room for %+v, which was not visited", slot, sq.Shape)
				}
			}
		}
		for sq := range wanted {
			q.Wake(sq)
		}
		x.purged = -maxRecords
		if x.purge(); len(x.all)+len(x.byKey)+len(x.cells)+len(x.list) > 0 {
			t.Fatalf("all have been woken, %d entries in %d cells are left", len(x.all), len(x.list))
		}
	})
}

// mayHelp reports whether a node has room for a pod of a shape queue, or would have without pods below a priority, if that is not negative.
func mayHelp(store *cluster.Store, slot cluster.Slot, sq *queue.ShapeQueue, priority int32) bool {
	return slices.ContainsFunc(classesOf(sq.Shape), func(class *cluster.Class) bool {
		return rules.Fits(&store.State, slot, class) || priority >= 0 && rules.FitsWithoutLower(store, slot, class, priority)
	})
}

// sleep makes a pod or a gang of two wait, and parks its shape queue.
func sleep(t *rapid.T, store *cluster.Store, q *queue.Queue, i int) *queue.ShapeQueue {
	name, members := "", 1
	if rapid.Bool().Draw(t, "gang") {
		name, members = fmt.Sprint("g", i), 2
		store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "x", Name: name}, UID: facts.UID(name), MinMember: 2}})
	}
	var u *queue.Unit
	for m := range members {
		uid := facts.UID(fmt.Sprintf("p%d-%d", i, m))
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Name: string(uid), Ours: true, Unit: name, Requirements: drawRequirements(t)}})
		u, _ = q.Add(store.Pod(uid))
	}
	q.Take(u)
	q.Park(u, queue.Version{})
	if sq := u.ShapeQueue(); sq != nil && sq.Parked() {
		return sq
	}
	return nil
}

// TestSharesOfExplanations lets a namespace bring more pods that fit nowhere, each of a size of its own, than are explained at once: the others are told
// so, and another namespace's pod is explained. Later the next ones are.
func TestSharesOfExplanations(t *testing.T) {
	config := spec.Default().Scheduling
	s, err := New(Options{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(100, 0)
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}, {Name: resource.NamePods, Amount: 10}}}}, now)
	wait := func(namespace string, i int) {
		uid := facts.UID(fmt.Sprint(namespace, i))
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: uid, Namespace: namespace, Name: string(uid), Ours: true, Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: int64(2000 + i)}}},
		}}, now)
	}
	for i := range 3 * maxExplained {
		wait("many", i)
	}
	wait("one", 5000)
	explained := func() (count int, one bool) {
		for s.Step(now, 1000) > 0 {
		}
		for shape, why := range s.blocked.explanations.byShape {
			if len(why.counts) > 0 {
				if count++; shape.Class.Requests[0].Amount == 7000 {
					one = true
				}
			} else if why.condition.Message == "" {
				t.Errorf("pods of %d millicores are told nothing", shape.Class.Requests[0].Amount)
			}
		}
		return count, one
	}
	if count, one := explained(); count != maxExplained+1 || !one {
		t.Errorf("%d shapes are explained, want %d; that of the other namespace: %v", count, maxExplained+1, one)
	}
	if n := s.Bounds().PostponedExplanations; n != 2*maxExplained {
		t.Errorf("%d explanations were postponed", n)
	}
	now = now.Add(config.Conditions.MinInterval.D())
	for i := range maxExplained { // they are tried again, the last ones first
		s.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint("many", i))}, now)
	}
	wakeAll(s)
	if count, _ := explained(); count < maxExplained {
		t.Errorf("%d shapes are explained after another %s", count, config.Conditions.MinInterval.D())
	}
}

// wakeAll wakes all that sleeps, as a change of the queues does.
func wakeAll(s *Scheduler) {
	s.queue.Parked(func(_ *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) { return seen, true })
}

// TestStepEnds gives the scheduler gangs of many sizes that no node can hold: one Step looks at a bounded number of nodes, a pod of another namespace
// that comes meanwhile has its turn within a few Steps, and in the end every gang has been told.
func TestStepEnds(t *testing.T) {
	const nodes, gangs = 2000, 300
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(100, 0)
	for i := range nodes {
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", i), Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 1000}, {Name: resource.NamePods, Amount: 10},
		}}}, now)
	}
	for g := range gangs {
		name := fmt.Sprint("g", g)
		s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "many", Name: name}, UID: facts.UID(name), MinMember: 2, Created: now.UnixNano()}}, now)
		for m := range 2 {
			uid := facts.UID(fmt.Sprint(name, "-", m))
			s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "many", Name: string(uid), Ours: true, Unit: name, Requirements: &facts.Requirements{
				Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: int64(2000 + g)}},
			}}}, now)
		}
	}
	steps := 0
	for s.Step(now, 1000) > 0 {
		if steps++; s.decisions.looked > maxLooks+4*nodes {
			t.Fatalf("a Step has looked at %d nodes", s.decisions.looked)
		}
	}
	if s.Bounds().EndedSteps == 0 {
		t.Error("no Step is said to have ended early")
	}
	if steps < 2 || s.Pending().Unschedulable != gangs {
		t.Errorf("after %d Steps %d gangs are known to fit nowhere, want %d", steps, s.Pending().Unschedulable, gangs)
	}
	if !s.store.Log().Covers(changes.Revision(1)) {
		t.Error("the log was overrun")
	}
}

// TestCellOpensForItsLeast files two pods whose amounts are in one step, the greater first: a node that has room for the lesser alone opens the cell.
func TestCellOpensForItsLeast(t *testing.T) {
	store := cluster.NewStore()
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 950}, {Name: resource.NamePods, Amount: 10}}}})
	q, x := queue.New(store), newParkedIndex()
	for _, cpu := range []int64{1000, 900} {
		uid := facts.UID(fmt.Sprint("asks-", cpu))
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Name: string(uid), Ours: true, Requirements: &facts.Requirements{
			Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}},
		}}})
		u, _ := q.Add(store.Pod(uid))
		q.Take(u)
		q.Park(u, queue.Version{})
		x.add(u.ShapeQueue(), queue.Version{}, false, 0)
	}
	visited := 0
	x.helped(store, 0, func(*parked) { visited++ })
	if len(x.list) != 1 || visited != 2 {
		t.Errorf("%d of 2 were visited, in %d cells", visited, len(x.list))
	}
}
