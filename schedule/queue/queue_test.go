package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
)

var (
	queueNames = []string{"a", "a1", "a2", "b", "b1", "default"}
	namespaces = []string{"n0", "n1", "n2", "n3"}
	labels     = []string{"", "rack"}
)

// twin drives a queue and the model of it through the same operations.
type twin struct {
	*world
	m    *model
	root *node
	pods []facts.UID
	t    fataler
	next func(n int) int // chooses what happens: a number below n
}

type fataler interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newTwin(t fataler, next func(n int) int) *twin {
	w := newWorld()
	return &twin{world: w, t: t, next: next, root: w.q.tree.root, m: &model{
		store: w.store, q: w.q, now: w.now, early: make(map[facts.UID]bool), parked: make(map[shapeQueueKey]bool), blocks: make(map[shapeQueueKey]*modelBlock),
	}}
}

// configure gives a twin queues to begin with.
func (tw *twin) configure() {
	for range tw.next(12) {
		tw.see(tw.newQueue())
	}
	for i, name := range namespaces {
		tw.see(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{
			{Key: "scheduling.hilbert.dev/queue", Value: queueNames[(i+tw.next(2))%len(queueNames)]},
		}}})
	}
}

// see lets the ledger, the queue and the model see an event.
func (tw *twin) see(e facts.Event) {
	effects := tw.apply(e)
	tw.sync()
	for _, effect := range effects {
		tw.effect(effect)
		if effect.Kind == cluster.Waits {
			tw.m.add(effect.Pod)
		} else {
			tw.m.remove(effect.Pod.UID)
		}
	}
	for _, changed := range tw.store.Units().Changed(&tw.units, nil) {
		if tw.next(4) == 0 {
			continue // nobody has told the queue: it finds out when the unit's turn comes
		}
		tw.q.Refresh(changed)
		tw.m.refresh(changed)
	}
	tw.sync()
}

func (tw *twin) sync() {
	queues, tenants, rebuilt := tw.store.Quota().Changed(&tw.q.seen)
	queues = slices.Clone(queues)
	tw.q.applyChanges(queues, tenants, rebuilt)
	if tw.root != tw.q.tree.root {
		tw.root = tw.q.tree.root
		tw.m.rebuild()
	}
	tw.m.sync(queues)
}

func pick[T any](tw *twin, from []T) T { return from[tw.next(len(from))] }

func (tw *twin) step(i int) {
	switch op := tw.next(20); {
	case op < 7:
		pod := tw.newPod(i)
		if tw.next(6) == 0 {
			tw.setEarly(pod.UID)
		}
		tw.see(facts.PodUpserted{Pod: pod})
	case op == 7:
		for range 1 + tw.next(3) {
			if len(tw.pods) > 0 {
				tw.see(facts.PodRemoved{UID: pick(tw, tw.pods)})
			}
		}
	case op == 8:
		tw.see(tw.newUnit())
	case op == 9:
		if tw.next(4) == 0 {
			tw.see(tw.newQueue())
		}
	case op == 10:
		switch tw.next(8) {
		case 0:
			var sq []facts.Label
			if name := pick(tw, append(queueNames, "")); name != "" {
				sq = []facts.Label{{Key: "scheduling.hilbert.dev/queue", Value: name}}
			}
			tw.see(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: pick(tw, namespaces), Labels: sq}})
		case 1:
			tw.see(facts.NodeUpserted{Node: &facts.Node{Name: "other", Allocatable: []resource.Quantity{
				{Name: resource.NameCPU, Amount: int64(tw.next(3)) * 500}, {Name: resource.NameMemory, Amount: int64(tw.next(3)) * 5},
			}}})
		}
	case op == 11:
		tw.now = tw.now.Add(time.Second)
		tw.q.Expire(tw.now)
		tw.m.expire(tw.now)
	case op == 12:
		tw.wake()
		if len(tw.pods) > 0 {
			tw.setEarly(pick(tw, tw.pods))
		}
	default:
		for range 1 + tw.next(3) {
			tw.pop()
		}
	}
	tw.sync()
	tw.compare()
}

// setEarly gives a pod its turn before others, or takes it back.
func (tw *twin) setEarly(uid facts.UID) {
	tw.m.early[uid] = !tw.m.early[uid]
	tw.q.SetEarly(uid, tw.m.early[uid])
}

func (tw *twin) newPod(i int) facts.Pod {
	seen := podFacts(pick(tw, namespaces), fmt.Sprint("p", i), int64(1+tw.next(3)))
	seen.Requirements.Reclaimed = tw.next(4) == 0
	seen.Priority, seen.Created = int32(tw.next(3)), int64(tw.next(4))
	if tw.next(2) == 0 {
		seen.Unit, seen.Subgroup = fmt.Sprint("g", tw.next(2)), pick(tw, []string{"", "x", "y"})
	}
	if len(tw.pods) > 0 && tw.next(6) == 0 { // the pod is seen again, perhaps with another priority
		if pod := tw.store.Pod(pick(tw, tw.pods)); pod != nil && pod.Phase == cluster.Pending {
			seen.UID, seen.Namespace, seen.Name = pod.UID, pod.Namespace, pod.Name
		}
	}
	tw.pods = append(tw.pods, seen.UID)
	return seen
}

func (tw *twin) newUnit() facts.Event {
	name := facts.UnitName{Namespace: pick(tw, namespaces), Name: fmt.Sprint("g", tw.next(2))}
	if tw.next(5) == 0 {
		return facts.UnitRemoved{Name: name}
	}
	f := &facts.Unit{UnitName: name, UID: "u", MinMember: int32(1 + tw.next(3)), Prioritized: tw.next(2) == 0}
	f.Priority, f.Topology.Required = int32(tw.next(3)), pick(tw, labels)
	return facts.UnitUpserted{Unit: f}
}

func (tw *twin) newQueue() facts.Event {
	name := pick(tw, queueNames)
	if tw.next(6) == 0 {
		return facts.QueueRemoved{Name: name}
	}
	f := &facts.Queue{Name: name, Weight: int64(1 + tw.next(3)), HalfLife: int64(20 * time.Second)}
	f.Sort = facts.SortPolicy(tw.next(5))
	if len(name) == 2 {
		f.Parent = name[:1]
	}
	if tw.next(2) == 0 {
		f.Guaranteed = []resource.Quantity{{Name: resource.NameCPU, Amount: int64(tw.next(6))}}
	}
	if tw.next(3) > 0 {
		f.Max = []resource.Quantity{{Name: resource.NameCPU, Amount: int64(2 + tw.next(8))}}
	}
	return facts.QueueUpserted{Queue: f}
}

// wake wakes a parked shape queue, if there is one.
func (tw *twin) wake() {
	keys := make(map[string]*ShapeQueue)
	tw.q.Parked(func(sq *ShapeQueue, seen Version) (Version, bool) {
		keys[sq.units.First().Key()] = sq
		return seen, false
	})
	if len(keys) == 0 {
		return
	}
	key := pick(tw, slices.Sorted(maps.Keys(keys)))
	u := tw.m.unitOf(keys[key].units.First().Members()[0].UID)
	tw.q.Wake(keys[key])
	delete(tw.m.parked, u.key)
}

// readyLines are the shape queues that are not parked.
func (tw *twin) readyLines() (queues []*ShapeQueue) {
	tw.q.sync()
	for _, n := range tw.q.tree.leaves {
		visit := func(sq *ShapeQueue) {
			if !sq.parked {
				queues = append(queues, sq)
			}
		}
		n.eachShapeQueue(visit)
		for _, tenant := range n.tenants {
			tenant.eachShapeQueue(visit)
		}
	}
	return queues
}

func (tw *twin) pop() {
	tw.sync()
	next := tw.q.Next(tw.readyLines())
	var first *Unit
	if next != nil {
		first = next.units.First()
	}
	u, want := tw.q.Pop(), tw.m.pop()
	// A gang that has changed since it was filed leaves its shape queue when its turn comes, and is filed anew.
	left := first != nil && first != u && (next.units.Len() == 0 || next.units.First() != first)
	if first != u && !left {
		tw.t.Fatalf("of all that are ready %v is next, %v was popped", name(first), name(u))
	}
	if (u == nil) != (want == nil) || u != nil && !slices.Equal(u.Members(), want.members()) {
		tw.t.Fatalf("popped %v, want %v", name(u), want)
	}
	if u == nil {
		return
	}
	if u.Need() != want.need || u.Priority != want.priority || u.Created != want.created {
		tw.t.Fatalf("%s: %+v, want %+v", u.Key(), u, want)
	}
	switch tw.next(7) {
	case 0:
		tw.q.Return(u)
		tw.m.file(want)
	case 1:
		until := tw.now.Add(time.Duration(1+tw.next(3)) * time.Second)
		tw.q.Delay(u, until)
		want.until = until
		tw.m.file(want)
	case 2:
		tw.q.Park(u, Version{Revision: 1})
		if tw.m.file(want); want.at == inShapeQueue {
			tw.m.parked[want.key] = true
		}
	default:
		tw.place(u, want)
	}
}

func name(u *Unit) string {
	if u == nil {
		return "nothing"
	}
	return u.Key()
}

// place commits some members of a unit, enough of them, or blocks it if a limit is in the way.
func (tw *twin) place(u *Unit, want *modelUnit) {
	members := slices.Clone(u.Members()[:u.Need()+tw.next(len(u.Members())-u.Need()+1)])
	if v := tw.world.place(members); !v.Committed {
		if v.Reason != cluster.RejectQuota {
			tw.t.Fatalf("the ledger refuses %s: %v", u.Key(), v)
		}
		at := u.Queue()
		for tw.next(2) == 0 && at.Parent() != nil {
			at = at.Parent()
		}
		tw.q.BlockByQuota(u, at)
		tw.m.parkQuota(want, at)
		return
	}
	var uids []facts.UID
	for _, pod := range members {
		uids = append(uids, pod.UID)
	}
	tw.q.Done(u, uids...)
	for _, uid := range uids {
		tw.m.drop(want, uid)
	}
	if len(want.pods) > 0 {
		tw.m.answer(want, true)
		tw.m.file(want)
	}
}

// compare holds everything that can be asked against the model.
func (tw *twin) compare() {
	if err := tw.q.verify(); err != nil {
		tw.t.Fatal(err)
	}
	count := make(map[string]int)
	pending := make(map[*quota.Queue][2]int)
	for _, u := range tw.m.units {
		state := [...]string{inShapeQueue: "active", inQuotaBlock: "blocked by quota", inBackoff: "backing off", inGathering: "gathering"}[u.at]
		if u.at == inShapeQueue && tw.m.parked[u.key] {
			state = "parked"
		}
		count[state]++
		for q := u.queue(); q != nil; q = q.Parent() {
			pending[q] = [2]int{pending[q][0] + 1, pending[q][1] + len(u.pods)}
		}
		for uid := range u.pods {
			if tw.q.Unit(uid) == nil {
				tw.t.Fatalf("pod %s is lost", uid)
			}
		}
	}
	got := map[string]int{
		"active": tw.q.Counts().Ready, "parked": tw.q.Counts().Parked, "blocked by quota": tw.q.Counts().QuotaBlocked, "backing off": tw.q.Counts().BackingOff,
		"gathering": tw.q.Counts().Gathering,
	}
	maps.DeleteFunc(got, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(got, count) {
		tw.t.Fatalf("counted %v, want %v", got, count)
	}
	tw.each(tw.store.Quota().Root(), func(q *quota.Queue) {
		if units, pods := tw.q.View().Pending(q); pending[q] != [2]int{units, pods} {
			tw.t.Fatalf("in %q %d units, %d pods are pending, want %v", q.Name, units, pods, pending[q])
		}
		first, want := tw.q.View().First(q), tw.m.next(q, false)
		if (first == nil) != (want == nil) || first != nil && !slices.Equal(first.Members(), want.members()) {
			tw.t.Fatalf("first of %q is %s, want %v", q.Name, name(first), want)
		}
	})
}

func (tw *twin) each(q *quota.Queue, visit func(*quota.Queue)) {
	visit(q)
	for _, child := range q.Children() {
		tw.each(child, visit)
	}
}

// TestEarlyMovesQueues: a pod that is the first of its queue anyway moves that queue, and the one above it, when it is given its turn and when that is taken back.
func TestEarlyMovesQueues(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for _, q := range []facts.Queue{{Name: "top"}, {Name: "a", Parent: "top"}, {Name: "a1", Parent: "a"}, {Name: "a2", Parent: "a"}, {Name: "b", Parent: "top"}} {
		q.Weight, q.Sort = 1, facts.PriorityFIFO
		w.see(facts.QueueUpserted{Queue: &q})
	}
	for i, queue := range []string{"b", "a1", "a2"} {
		w.feed(queue+"-pods", queue)
		pod := podFacts(queue+"-pods", "p", 1)
		pod.Created = int64(i)
		w.see(facts.PodUpserted{Pod: pod})
	}
	for _, step := range []struct {
		early bool
		want  string
	}{{true, "a1-pods/p"}, {false, "b-pods/p"}} {
		w.q.SetEarly("a1-pods/p", step.early)
		if err := w.q.verify(); err != nil {
			t.Fatal(err)
		}
		if got := w.q.First().Key(); got != step.want {
			t.Errorf("early: %v: %s is first, want %s", step.early, got, step.want)
		}
	}
}

// TestAgainstModel drives the queue and the model through the same random operations under all policies: every Pop must give the same unit,
// and whatever else can be asked must agree. What happens is drawn from a seed, so that all operations are equally frequent; a failure is
// shrunk to the fewest steps.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		tw := newTwin(t, random.IntN)
		if tw.next(4) > 0 {
			tw.configure()
		}
		for i := range rapid.IntRange(20, 150).Draw(t, "steps") {
			tw.step(i)
		}
	})
}

// FuzzAgainstModel lets the fuzzer choose the operations, one byte for each choice.
func FuzzAgainstModel(f *testing.F) {
	f.Add([]byte("\x09\x03\x01\x00\x02\x00\x01\x00\x01\x01\x01\x01\x01\x01\x0d\x00"))
	f.Fuzz(func(t *testing.T, choices []byte) {
		tw := newTwin(t, func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			choice := int(choices[0]) % n
			choices = choices[1:]
			return choice
		})
		for i := 0; len(choices) > 0 && i < 300; i++ {
			tw.step(i)
		}
	})
}
