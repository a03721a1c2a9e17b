package place

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
)

// TestReclaimThroughHistory drives a ledger with queues, gangs, budgets, limits, reservations and constraints between pods through random
// events and evictions. The ledger takes every Plan; nobody leaves who must not; and what is kept from one decision to the next changes
// nothing.
func TestReclaimThroughHistory(t *testing.T) {
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newFeud(t)
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			w.step(t)
			if err := w.store.Verify(); err != nil {
				t.Fatal(err)
			}
		}
		shared += w.shared
	})
	if shared == 0 && !testing.Short() { // a few histories may have none
		t.Error("no victim was ever shared")
	}
}

func FuzzReclaim(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		w := newFeud(t)
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			w.step(t)
		}
	}))
}

// licence is a resource that some pods ask for, and others do not.
const licence = "example.com/licence"

// feud is a small cluster that several queues fight for.
type feud struct {
	store *cluster.Store
	r     *reclaimWorld
	pool  []*facts.Requirements
	facts map[facts.UID]*facts.Pod
	now   int64
	pods  int
	// shared counts victims of several Plans.
	shared int
}

func newFeud(t *rapid.T) *feud {
	w := &feud{store: cluster.NewStore(), facts: make(map[facts.UID]*facts.Pod), now: 100e9}
	constrained := rapid.IntRange(0, 3).Draw(t, "constrained") == 0
	for range rapid.IntRange(1, 3).Draw(t, "classes") {
		r := &facts.Requirements{Requests: quantities(resource.NameCPU, 500*rapid.IntRange(1, 4).Draw(t, "request"), resource.NameMemory, 1<<30)}
		if rapid.IntRange(0, 2).Draw(t, "licence") == 0 { // not all ask for everything
			r.Requests = quantities(resource.NameCPU, 500*rapid.IntRange(0, 2).Draw(t, "beside"), licence, rapid.IntRange(1, 2).Draw(t, "licences"))
		}
		if constrained {
			r = drawRequirements(t)
			drawConstraints(t, r)
		}
		w.pool = append(w.pool, r)
	}
	if rapid.Bool().Draw(t, "queued") {
		for _, name := range []string{"a", "b", "a1", "a2"} {
			w.upsertQueue(t, name)
		}
	}
	for i := range 4 {
		w.upsertNode(t, i)
	}
	w.r = newReclaimer(t, w.store)
	return w
}

func (w *feud) upsertQueue(t *rapid.T, name string) {
	f := &facts.Queue{
		Name: name, Weight: rapid.Int64Range(1, 3).Draw(t, "weight"), KeepsBorrowed: rapid.IntRange(0, 5).Draw(t, "keeps") == 0,
		NeverPreempts: rapid.IntRange(0, 5).Draw(t, "never") == 0,
	}
	if rapid.IntRange(0, 2).Draw(t, "protects") == 0 {
		f.ReclaimMinRuntime = new(rapid.SampledFrom([]int64{0, 2e9, 90e9}).Draw(t, "min runtime"))
	}
	if len(name) > 1 {
		f.Parent = name[:1]
	}
	if rapid.IntRange(0, 3).Draw(t, "guaranteed") > 0 {
		f.Guaranteed = quantities(resource.NameCPU, 1000*rapid.IntRange(0, 8).Draw(t, "cpu"), licence, rapid.IntRange(0, 4).Draw(t, "licences"))
	}
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		f.Max = quantities(resource.NameCPU, 1000*rapid.IntRange(1, 8).Draw(t, "max"))
	}
	w.store.Apply(facts.QueueUpserted{Queue: f})
}

func (w *feud) upsertNode(t *rapid.T, i int) {
	n := drawNode(t)
	n.Name = fmt.Sprint("n", i)
	n.Unschedulable, n.Taints = false, nil
	n.Allocatable = quantities(resource.NameCPU, 1000*rapid.IntRange(1, 4).Draw(t, "cpu"), resource.NameMemory, 8<<30, resource.NamePods, 6, licence, 3)
	w.store.Apply(facts.NodeUpserted{Node: n})
	if report := drawReport(t); report != nil {
		w.store.Apply(facts.NodeReported{Node: n.Name, Report: report})
	}
}

func (w *feud) step(t *rapid.T) {
	w.now += rapid.SampledFrom([]int64{0, 1e9, 70e9}).Draw(t, "passes")
	switch rapid.IntRange(0, 15).Draw(t, "op") {
	case 0:
		w.upsertNode(t, rapid.IntRange(0, 3).Draw(t, "node"))
	case 1:
		w.upsertQueue(t, rapid.SampledFrom([]string{"a", "b", "a1", "a2"}).Draw(t, "queue"))
	case 2:
		namespace := rapid.SampledFrom(spaces).Draw(t, "namespace")
		labels := []facts.Label{{Key: spec.LabelQueue, Value: rapid.SampledFrom([]string{"a", "b", "a1", "a2"}).Draw(t, "queue")}}
		w.store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: namespace, Labels: labels}})
	case 3:
		w.store.Apply(facts.BudgetUpserted{Budget: &facts.Budget{
			Namespace: rapid.SampledFrom(spaces).Draw(t, "namespace"), Name: "b", Pods: drawSelector(t), Allowed: rapid.Int32Range(0, 2).Draw(t, "allowed"),
		}})
	case 4:
		w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{
			UnitName:  facts.UnitName{Namespace: rapid.SampledFrom(spaces).Draw(t, "namespace"), Name: rapid.SampledFrom([]string{"g", "h"}).Draw(t, "unit")},
			MinMember: rapid.Int32Range(1, 3).Draw(t, "min"), Indivisible: rapid.IntRange(0, 3).Draw(t, "whole") == 0,
		}})
	case 5:
		by := cluster.ReservationID(rapid.IntRange(0, 1).Draw(t, "by"))
		w.store.Reserve([]cluster.Slot{cluster.Slot(rapid.IntRange(0, 3).Draw(t, "reserved"))}, by)
	case 6, 7, 8:
		w.change(t)
	default:
		w.arrive(t)
	}
}

// change lets something happen to a pod that is there.
func (w *feud) change(t *rapid.T) {
	if len(w.facts) == 0 {
		return
	}
	f, known := drawKnown(t, w.store, w.facts)
	switch what := rapid.IntRange(0, 4).Draw(t, "what"); {
	case what == 0 && known.Phase == cluster.Assumed:
		w.store.Release(f.UID)
		return
	case what <= 1:
		delete(w.facts, f.UID)
		w.store.Apply(facts.PodRemoved{UID: f.UID})
		return
	case what == 2:
		f.Deleting = true
	case known.Obliged():
		return // nothing else about it counts until its Binding
	default:
		f.Started = rapid.Int64Range(1, w.now).Draw(t, "started")
		if rapid.Bool().Draw(t, "just now") {
			f.Started = w.now
		}
	}
	w.store.Apply(facts.PodUpserted{Pod: *f})
}

// arrive brings a unit, and evicts for it if it fits nowhere.
func (w *feud) arrive(t *rapid.T) {
	namespace, unit := rapid.SampledFrom(spaces).Draw(t, "namespace"), ""
	size := rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "size")
	ask := &pack.Ask{Need: rapid.IntRange(1, size).Draw(t, "need")}
	if size > 1 {
		unit = fmt.Sprint("u", w.pods)
		w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: namespace, Name: unit}, MinMember: int32(ask.Need)}})
		if rapid.IntRange(0, 2).Draw(t, "required") == 0 {
			ask.Topology.Required = "zone"
		}
	} else if rapid.IntRange(0, 2).Draw(t, "member") == 0 {
		unit = rapid.SampledFrom([]string{"g", "h"}).Draw(t, "unit")
	}
	priority := rapid.Int32Range(-1, 2).Draw(t, "priority")
	for range size {
		f := &facts.Pod{
			UID: facts.UID(fmt.Sprint(w.pods)), Name: fmt.Sprint(w.pods), Ours: true, Requirements: rapid.SampledFrom(w.pool).Draw(t, "class"),
			Namespace: namespace, Labels: drawLabels(t), Priority: priority, Unit: unit, NeverPreempts: rapid.IntRange(0, 9).Draw(t, "never") == 0,
		}
		w.pods++
		w.facts[f.UID] = f
		w.store.Apply(facts.PodUpserted{Pod: *f})
		ask.Members = append(ask.Members, w.store.Pod(f.UID))
	}
	if first := ask.Members[0]; !first.Schedulable() || first.Unit != nil && first.Unit.Need() > ask.Need {
		return
	}
	found, ok := w.r.Evict(ask, w.now)
	checkUntouched(t, w.r)
	w.compare(t, ask, &found, ok)
	if ok {
		w.checkVictims(t, ask, &found)
	} else if placed, fits := w.r.placer.PlaceUnit(ask); fits {
		found.Placements = placed
	} else {
		return
	}
	plan := planOf(w.store, &found)
	plan.Decided = w.now
	verdict := w.store.Commit(plan, rules.Commits)
	if granted := verdict.Reason == cluster.RejectQuota && w.granted(&found); ok && !verdict.Committed && !granted {
		t.Fatalf("%v for %d members: %v", names(found.Victims), size, verdict)
	}
	w.r.placer.snapshot.Advance(w.store)
}

// granted reports whether a pod is charged more at its place than it asks for, as one is that takes whole NUMA nodes: the search knows what the pod asks
// for, the ledger what it gets.
func (w *feud) granted(found *victims.Eviction) bool {
	return slices.ContainsFunc(found.Placements, func(p pack.MemberChoice) bool {
		return !slices.Equal(w.store.Charge(p.Slot, p.Pod.Class, &p.Grant), p.Pod.Class.Charge)
	})
}

// compare holds a decision against one that nothing was kept for.
func (w *feud) compare(t *rapid.T, ask *pack.Ask, found *victims.Eviction, ok bool) {
	fresh := newReclaimer(t, w.store)
	if fresh.NoVictims(ask) && ok {
		t.Fatalf("%v leave, though it was said to be hopeless", names(found.Victims))
	}
	fresh.placer.snapshot.Open(0) // so that no table is used
	fresh.placer.snapshot.Rollback(0)
	ask = &pack.Ask{Members: ask.Members, Need: ask.Need, Topology: ask.Topology, Within: fresh.all()}
	again, known := fresh.Evict(ask, w.now)
	if ok != known || found.Cost.Violations != again.Cost.Violations || found.Cost.Highest != again.Cost.Highest {
		t.Fatalf("%v leave at %+v: %v; without what was kept %v at %+v: %v", names(found.Victims), found.Cost, ok, names(again.Victims), again.Cost, known)
	}
}

func (r *reclaimWorld) all() []cluster.Slot {
	slots := []cluster.Slot{}
	for i := range r.store.Slots() {
		slots = append(slots, cluster.Slot(i))
	}
	return slots
}

// checkVictims asks of each victim whether it may be one, by definition.
func (w *feud) checkVictims(t *rapid.T, ask *pack.Ask, found *victims.Eviction) {
	asker := ask.Members[0]
	priority, never := asker.Priority, false
	for _, pod := range ask.Members {
		priority, never = min(priority, pod.Priority), never || pod.NeverPreempts
	}
	off := make(map[*cluster.Pod]bool)
	for _, v := range found.Victims {
		off[v] = true
	}
	stopped := make(map[*quota.Queue]bool) // whether there is one that may have been the last
	for _, v := range found.Victims {
		if v.Deleting {
			continue
		}
		if v.Unit != nil && v.Unit == asker.Unit {
			t.Fatalf("%s is of the same unit", v.Name)
		}
		if v.Claimed() { // the room of others that leave; it is for a unit that might have taken them itself
			w.shared++
			w.checkVictim(t, ask, off, v, v.Priority < priority && !never)
			continue
		}
		from := w.checkVictim(t, ask, off, v, v.Priority < priority && !never)
		if from != nil {
			_, b, _ := naiveFork(asker.Queue(), v.Queue())
			stopped[from] = stopped[from] || w.borrowed(b, v, ask, off, true)
		}
	}
	w.checkOtherGuarantees(t, found, off)
	for q, ok := range stopped {
		if !ok {
			t.Fatalf("%v leave, more than %s has borrowed", names(found.Victims), q.Name)
		}
	}
}

// checkOtherGuarantees: no queue loses, below its guarantee, what none of those asks for that have places.
func (w *feud) checkOtherGuarantees(t *rapid.T, found *victims.Eviction, off map[*cluster.Pod]bool) {
	asker := found.Placements[0].Pod.Queue()
	for v := range off {
		if v.Deleting || v.Queue() == asker {
			continue
		}
		_, b, _ := naiveFork(asker, v.Queue())
		for q := v.Queue(); b != nil && q != b.Parent(); q = q.Parent() {
			for _, held := range v.Class.Charge {
				asked := slices.ContainsFunc(found.Placements, func(p pack.MemberChoice) bool { return p.Pod.Class.Charge.Get(held.Kind) > 0 })
				if asked || held.Kind == resource.Pods || held.Value == 0 || q.Guaranteed(held.Kind) == 0 {
					continue
				}
				var left int64
				for _, pod := range w.staying(q, nil, func(*cluster.Pod) bool { return false }) {
					if !off[pod] {
						left += pod.Class.Charge.Get(held.Kind)
					}
				}
				if left < q.Guaranteed(held.Kind) {
					t.Fatalf("%s leaves queue %s with %d of kind %d, of which it is guaranteed %d and which is not asked for", v.Name, q.Name, left, held.Kind, q.Guaranteed(held.Kind))
				}
			}
		}
	}
}

// checkVictim checks the rules between queues, and returns the queue at the fork, nil if it is the same queue.
func (w *feud) checkVictim(t *rapid.T, ask *pack.Ask, off map[*cluster.Pod]bool, v *cluster.Pod, lower bool) *quota.Queue {
	asker := ask.Members[0]
	if v.Queue() == asker.Queue() {
		if !lower || neverTakesByPriority(v.Queue()) {
			t.Fatalf("%s is of the same queue and of priority %d", v.Name, v.Priority)
		}
		return nil
	}
	if v.Unit == nil || !v.Unit.Atomic() { // of gangs TestReclaimSparesTheYoung tells
		if since := cmp.Or(v.Started, v.Scheduled); since > 0 && w.now-since < naiveMinRuntime(v.Queue()) {
			t.Fatalf("%s of %s has run for %v only", v.Name, v.Queue().Name, w.now-since)
		}
	}
	a, b, common := naiveFork(asker.Queue(), v.Queue())
	if keepsWhatItBorrowed(v.Queue()) || !w.borrowed(b, v, ask, off, false) {
		t.Fatalf("%s of %s is not borrowed, or kept", v.Name, v.Queue().Name)
	}
	for q := v.Queue(); b != nil && q != b.Parent(); q = q.Parent() {
		if keepsWhatItBorrowed(q) {
			t.Fatalf("%s is kept by %s", v.Name, q.Name)
		}
	}
	if (!lower || neverTakesByPriority(common)) && !naiveEntitled(asker.Queue(), a, ask) {
		t.Fatalf("%s of priority %d, and %s would not stay within its guarantee", v.Name, v.Priority, asker.Queue().Name)
	}
	return cmp.Or(b, v.Queue())
}

// naiveFork returns the children of the lowest common queue that lead to two queues, nil for one that is common itself.
func naiveFork(x, y *quota.Queue) (a, b, common *quota.Queue) {
	for common = x; ; a, common = common, common.Parent() {
		b = nil
		for q := y; q != nil; b, q = q, q.Parent() {
			if q == common {
				return a, b, common
			}
		}
	}
}

func naiveEntitled(q, top *quota.Queue, ask *pack.Ask) bool {
	if top == nil {
		return false
	}
	var asks resource.List
	for _, pod := range ask.Members {
		asks = asks.Plus(pod.Class.Charge, 1)
	}
	for i, a := range asks { // of as many as are needed, whichever
		var values []int64
		for _, pod := range ask.Members {
			values = append(values, pod.Class.Charge.Get(a.Kind))
		}
		slices.Sort(values)
		asks[i].Value = 0
		for _, value := range values[len(values)-ask.Need:] {
			asks[i].Value += value
		}
	}
	ground := false
	for _, a := range asks {
		guaranteed := a.Kind != resource.Pods
		for up := q; a.Kind != resource.Pods && up != top.Parent(); up = up.Parent() {
			has := up.Guaranteed(a.Kind)
			guaranteed = guaranteed && has > 0
			if has > 0 && up.Used(a.Kind)+a.Value > has {
				return false
			}
		}
		ground = ground || guaranteed
	}
	return ground
}

// borrowed reports whether the queue (nil: the units directly in the victim's) was beyond its guarantee of something that is asked for and that
// the victim, or all of its gang, holds: when it was taken, if it was the first, or the last, to be.
func (w *feud) borrowed(b *quota.Queue, v *cluster.Pod, ask *pack.Ask, off map[*cluster.Pod]bool, last bool) bool {
	together := func(pod *cluster.Pod) bool { return pod == v || pod.Unit != nil && pod.Unit == v.Unit }
	staying := w.staying(b, v.Queue(), func(pod *cluster.Pod) bool { return v.Claimed() && off[pod] && together(pod) })
	var holds resource.List
	for pod := range off {
		if together(pod) {
			holds = holds.Plus(pod.Class.Charge, 1)
		}
	}
	for _, a := range holds {
		if a.Kind == resource.Pods || !slices.ContainsFunc(ask.Members, func(p *cluster.Pod) bool { return p.Class.Charge.Get(a.Kind) > 0 }) {
			continue
		}
		var used int64
		for _, pod := range staying {
			if !last || !off[pod] || together(pod) {
				used += pod.Class.Charge.Get(a.Kind)
			}
		}
		guaranteed := int64(0)
		if b != nil {
			guaranteed = b.Guaranteed(a.Kind)
		}
		if used > guaranteed {
			return true
		}
	}
	return false
}

// staying returns the pods of a queue and those below it (nil: of the leaf alone) that are not leaving, and those of the leaving that are counted nevertheless.
func (w *feud) staying(top, leaf *quota.Queue, counted func(*cluster.Pod) bool) (pods []*cluster.Pod) {
	for i := range w.store.Slots() {
		for _, pod := range w.store.PodsOn(cluster.Slot(i)) {
			below := top == nil && pod.Queue() == leaf
			for q := pod.Queue(); q != nil && top != nil; q = q.Parent() {
				below = below || q == top
			}
			if below && !pod.Deleting && (!pod.Claimed() || counted(pod)) {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// naiveMinRuntime is what the lowest queue says that says something.
func naiveMinRuntime(q *quota.Queue) (least int64) {
	var chain []*quota.Queue
	for ; q != nil; q = q.Parent() {
		chain = append(chain, q)
	}
	for _, q := range slices.Backward(chain) {
		if q.Facts != nil && q.Facts.ReclaimMinRuntime != nil {
			least = *q.Facts.ReclaimMinRuntime
		}
	}
	return least
}

func keepsWhatItBorrowed(q *quota.Queue) bool { return q.Facts != nil && q.Facts.KeepsBorrowed }

func neverTakesByPriority(q *quota.Queue) bool { return q.Facts != nil && q.Facts.NeverPreempts }
