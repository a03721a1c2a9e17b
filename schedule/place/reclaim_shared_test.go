package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestReclaimTogether lets units come one after the other to a node full of equal pods, before anybody has been told to leave: together they evict as
// many as they would need if they had come as one, by priority or by what their queue is guaranteed.
func TestReclaimTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, count := rapid.IntRange(1, 4).Draw(t, "size"), rapid.IntRange(1, 12).Draw(t, "count")
		free := rapid.IntRange(0, 3).Draw(t, "free")
		w := newCrowd(t, size, count, free, rapid.Bool().Draw(t, "queued"))
		asked := 0
		for i := range rapid.IntRange(1, 6).Draw(t, "units") {
			members, each := rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "members"), rapid.IntRange(1, 5).Draw(t, "each")
			fits := asked+members*each <= size*count+free
			if ok := w.come(t, fmt.Sprint("u", i), members, each); ok != fits {
				t.Fatalf("unit %d has places: %v; %d of %d are asked for", i, ok, asked+members*each, size*count+free)
			}
			if fits {
				asked += members * each
			}
			if want := max(asked-free+size-1, 0) / size; w.leaving() != want {
				t.Fatalf("after unit %d %d of %d pods of size %d leave, and %d is asked for beside %d free: want %d", i, w.leaving(), count, size, asked, free, want)
			}
		}
		w.finish(t)
	})
}

// crowd is a node full of equal pods.
type crowd struct {
	store     *cluster.Store
	r         *reclaimWorld
	namespace string // of the units that come
}

func newCrowd(t *rapid.T, size, count, free int, queued bool) *crowd {
	w := &crowd{store: cluster.NewStore()}
	priority, namespace := int32(0), ""
	if queued { // what has been borrowed is taken back, whatever the priority
		priority, namespace, w.namespace = 9, "guest", "owner"
		for name, guaranteed := range map[string]int{"owner": size*count + free, "guest": 0} {
			w.store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Weight: 1, Guaranteed: quantities(resource.NameCPU, guaranteed)}})
			w.store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}}}})
		}
	}
	w.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: quantities(resource.NameCPU, size*count+free, resource.NamePods, 100)}})
	for i := range count {
		w.store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(fmt.Sprint("v", i)), Name: fmt.Sprint("v", i), Namespace: namespace, Node: "n", Priority: priority,
			Started: rapid.Int64Range(1, 5).Draw(t, "started") * 1e9, Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, size)},
		}})
	}
	w.r = newReclaimer(t, w.store)
	return w
}

// come brings a unit, which takes what is free or evicts.
func (w *crowd) come(t *rapid.T, name string, members, each int) bool {
	w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: w.namespace, Name: name}, MinMember: int32(members)}})
	ask := &pack.Ask{Need: members}
	for i := range members {
		uid := facts.UID(fmt.Sprint(name, "-", i))
		w.store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: uid, Name: string(uid), Namespace: w.namespace, Unit: name, Ours: true, Priority: 5,
			Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, each)},
		}})
		ask.Members = append(ask.Members, w.store.Pod(uid))
	}
	w.r.placer.snapshot.Advance(w.store)
	found, ok := w.r.Evict(ask, now)
	checkUntouched(t, w.r)
	if !ok {
		if found.Placements, ok = w.r.placer.PlaceUnit(ask); !ok {
			return false
		}
	}
	if verdict := w.store.Commit(planOf(w.store, &found), rules.Commits); !verdict.Committed {
		t.Fatalf("%v for %s: %v", names(found.Victims), name, verdict)
	}
	if err := w.store.Verify(); err != nil {
		t.Fatal(err)
	}
	if over := w.store.Overcommitted(); len(over) > 0 {
		t.Fatalf("%v hold more than they have when all victims have left", over)
	}
	return true
}

func (w *crowd) leaving() (n int) {
	for _, pod := range w.store.PodsOn(0) {
		if pod.Claimed() {
			n++
		}
	}
	return n
}

// finish lets the victims leave one by one, and some units vanish before theirs have. Whoever waits for nobody any more is bound. Those that run never ask for more
// than there is.
func (w *crowd) finish(t *rapid.T) {
	for {
		running, waits := w.running()
		if running > w.store.Allocatable(0, resource.CPU) {
			t.Fatalf("%d run", running)
		}
		if len(waits) == 0 {
			return
		}
		pod := rapid.SampledFrom(waits).Draw(t, "waits")
		if victims := pod.Victims(); rapid.IntRange(0, 3).Draw(t, "vanishes") > 0 {
			pod = rapid.SampledFrom(victims).Draw(t, "leaves")
		}
		w.store.Apply(facts.PodRemoved{UID: pod.UID})
		for _, bound := range w.store.PodsOn(0) {
			if bound.Phase == cluster.Assumed && !bound.Obliged() {
				if why := w.store.Recheck(bound.UID, rules.Commits); why != "" {
					t.Fatalf("%s may not be bound: %s", bound.Name, why)
				}
				w.store.Confirm(bound.UID)
			}
		}
	}
}

// running is what those that run ask for, and who waits for victims.
func (w *crowd) running() (asked int64, waits []*cluster.Pod) {
	for _, pod := range w.store.PodsOn(0) {
		if pod.Obliged() {
			waits = append(waits, pod)
		} else {
			asked += pod.Class.Amounts.Get(resource.CPU)
		}
	}
	return asked, waits
}

// TestGrowthSharesOnlyWhoIsNamed: a place of a growth counts on the room that a claimed pod leaves over only if it may evict that pod, by name.
func TestGrowthSharesOnlyWhoIsNamed(t *testing.T) {
	for _, c := range []struct {
		named  []facts.UID
		leaves []string
	}{
		{[]facts.UID{"v0", "v1", "v2"}, []string{"v1", "v2"}}, // v2 leaves for q, and one more has to
		{[]facts.UID{"v0", "v1"}, []string{"v0", "v1"}},
	} {
		store := cluster.NewStore()
		pod := func(name, node string, priority int32) {
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: facts.UID(name), Name: name, Namespace: "ns", Node: node, Ours: true, Priority: priority, Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, 1)},
			}})
		}
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: quantities(resource.NameCPU, 4, resource.NamePods, 9)}})
		pod("grows", "n", 5)
		for i := range 3 {
			pod(fmt.Sprint("v", i), "n", 1)
		}
		pod("q", "", 5)
		claim := cluster.Plan{Placements: []cluster.Placement{{Pod: "q", Node: "n"}}, Victims: []facts.UID{"v2"}}
		if verdict := store.Commit(&claim, rules.Commits); !verdict.Committed {
			t.Fatal(verdict)
		}
		store.Apply(facts.ReservationUpserted{Reservation: &facts.Reservation{
			UID: "r", Name: "r", Namespace: "ns", Count: 1, MayEvict: c.named,
			Template: facts.Pod{Namespace: "ns", Ours: true, Priority: 4, Requirements: &facts.Requirements{
				Requests: quantities(resource.NameCPU, 1),
				Required: []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{"n"}}}}},
			}},
			Owners: []facts.ReservationOwner{{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{{Key: spec.LabelGrowth, Operator: facts.In, Values: []string{"grows"}}}}}},
		}})
		var place *cluster.Pod
		store.EachPod(func(pod *cluster.Pod) {
			if pod.Placeholder() {
				place = pod
			}
		})
		r := newReclaimer(t, store)
		found, ok := r.Evict(&pack.Ask{Members: []*cluster.Pod{place}, Need: 1}, now)
		slices.SortFunc(found.Victims, func(a, b *cluster.Pod) int { return strings.Compare(a.Name, b.Name) })
		if !ok || !slices.Equal(names(found.Victims), c.leaves) {
			t.Errorf("%v were named: %v (%v) leave, want %v", c.named, names(found.Victims), ok, c.leaves)
		}
	}
}
