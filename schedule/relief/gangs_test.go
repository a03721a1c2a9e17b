package relief

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

// gangWorld is gangs g0, g1, ... of reclaimed pods, and single pods s0, s1, ..., on nodes that want some of them gone.
type gangWorld struct {
	harness
	need map[string]int
	size map[string]int
	// displaced are members that a preemptor evicts, and that have not left yet.
	displaced []facts.UID
}

func newGangWorld(t *rapid.T) *gangWorld {
	w := &gangWorld{harness: harness{store: cluster.NewStore(), now: began}, need: map[string]int{}, size: map[string]int{}}
	w.relief = New(w.store, spec.Evictions{PercentPerMinute: 50, Burst: 3})
	for n := range worldNodes {
		w.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", n), Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 100}}}})
	}
	for g := range rapid.IntRange(1, 3).Draw(t, "gangs") {
		name := fmt.Sprint("g", g)
		w.need[name] = rapid.IntRange(2, 5).Draw(t, "need")
		w.size[name] = w.need[name] + rapid.IntRange(0, 2).Draw(t, "more")
		w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "default", Name: name}, UID: facts.UID(name), MinMember: int32(w.need[name])}})
		for i := range w.size[name] {
			w.add(fmt.Sprint(name, "-", i), name, rapid.IntRange(0, worldNodes-1).Draw(t, "node"))
		}
	}
	for i := range 3 {
		w.add(fmt.Sprint("s", i), "", i)
	}
	return w
}

func (w *gangWorld) add(name, unit string, node int) {
	w.store.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: facts.UID(name), Namespace: "default", Name: name, Ours: true, Node: fmt.Sprint("n", node), Unit: unit, Started: began.Add(-time.Hour).UnixNano(),
		Requirements: &facts.Requirements{Reclaimed: true},
	}})
}

// want lets a node want some of its pods gone.
func (w *gangWorld) want(t *rapid.T, node string) {
	report := &facts.NodeReport{}
	w.store.EachPod(func(pod *cluster.Pod) {
		if pod.Node() == node && !slices.Contains(w.displaced, pod.UID) { // who is claimed by another is left to it
			report.Evictions = append(report.Evictions, facts.EvictionRequest{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Reason: "Pressure"})
		}
	})
	kept := report.Evictions[:0]
	slices.SortFunc(report.Evictions, func(a, b facts.EvictionRequest) int { return strings.Compare(string(a.UID), string(b.UID)) })
	for _, e := range report.Evictions {
		if rapid.Bool().Draw(t, "wanted") {
			e.Urgent = rapid.Bool().Draw(t, "urgent")
			kept = append(kept, e)
		}
	}
	report.Evictions = kept
	w.store.Apply(facts.NodeReported{Node: node, Report: report})
}

// play answers what is written; a pod that is let go is gone at once, or later.
func (w *gangWorld) play(t *rapid.T, faults bool) {
	for _, write := range append([]bind.Write{}, w.relief.Ready(w.now)...) {
		outcome := bind.Written
		if faults && write.Kind == bind.EvictPod && rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
			outcome = rapid.SampledFrom([]bind.Outcome{bind.Withheld, bind.NotSent, bind.Unknown}).Draw(t, "outcome")
		}
		w.relief.Finish(bind.Result{ID: write.ID, Outcome: outcome}, w.now)
		if write.Kind == bind.EvictPod && outcome == bind.Written {
			w.store.Apply(facts.PodRemoved{UID: write.Pod})
		}
	}
}

// preempt lets a preemptor evict a member that its gang can spare, and members that it evicted before leave or stay.
func (w *gangWorld) preempt(t *rapid.T) {
	left := w.displaced[:0]
	for _, uid := range w.displaced {
		switch rapid.IntRange(0, 2).Draw(t, "displaced") {
		case 0:
			left = append(left, uid)
		case 1:
			w.store.Apply(facts.PodRemoved{UID: uid})
		default:
			if pod := w.store.Pod(uid); pod != nil {
				w.store.Units().NotEvicted(pod, false)
			}
		}
	}
	w.displaced = left
	u := w.store.Units().Get(facts.UnitName{Namespace: "default", Name: rapid.SampledFrom(slices.Sorted(maps.Keys(w.need))).Draw(t, "preempted")})
	if u == nil {
		return
	}
	stay := slices.DeleteFunc(slices.Clone(u.Pods()), func(pod *cluster.Pod) bool { return u.Evicted(pod.UID) })
	if len(stay) > u.MinMember() && w.relief.requests[requestKey{stay[0].Node(), stay[0].UID}] == nil {
		w.store.Units().Evicting(stay[0])
		w.displaced = append(w.displaced, stay[0].UID)
	}
}

// Evictions at the request of nodes leave each gang with as many members as it needs, or with none, whatever is requested and answered, and whoever else evicts
// members that a gang can spare.
func TestGangsGoWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newGangWorld(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "report") {
				w.want(t, fmt.Sprint("n", rapid.IntRange(0, worldNodes-1).Draw(t, "node")))
			}
			if rapid.Bool().Draw(t, "preempt") {
				w.preempt(t)
			}
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "wait")) * time.Second)
			w.play(t, true)
		}
		for n := range worldNodes { // nobody wants anything any more: only what has begun goes on
			w.store.Apply(facts.NodeReported{Node: fmt.Sprint("n", n), Report: &facts.NodeReport{}})
		}
		for _, uid := range w.displaced {
			w.store.Apply(facts.PodRemoved{UID: uid})
		}
		for range 20 {
			w.now = w.now.Add(time.Minute)
			w.play(t, false)
		}
		for name, need := range w.need {
			left := 0
			if u := w.store.Units().Get(facts.UnitName{Namespace: "default", Name: name}); u != nil {
				left = u.Placed()
			}
			if left != 0 && left < need {
				t.Fatalf("gang %s had %d members and needs %d; %d are left", name, w.size[name], need, left)
			}
		}
		if len(w.relief.followers) != 0 {
			t.Fatalf("%d pods are to follow for ever", len(w.relief.followers))
		}
	})
}

// A pod that leaves alone goes before a member whose gang goes with it, though the node ranks the member first. Whether the gang goes with it depends on all
// members that are leaving, those that a preemptor displaces among them.
func TestGangCostsMore(t *testing.T) {
	for _, displaced := range []bool{false, true} {
		g := &gangWorld{harness: harness{store: cluster.NewStore(), now: began}}
		g.relief = New(g.store, spec.Evictions{PercentPerMinute: 100, Burst: 1})
		g.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n0", Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 100}}}})
		g.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "default", Name: "g"}, UID: "g", MinMember: 2}})
		g.add("g-0", "g", 0)
		g.add("g-1", "g", 0)
		g.add("s", "", 0)
		if displaced {
			g.add("g-2", "g", 0)
			g.store.Units().Evicting(g.store.Pod("g-2"))
		}
		g.store.Apply(facts.NodeReported{Node: "n0", Report: &facts.NodeReport{Evictions: []facts.EvictionRequest{
			{UID: "g-0", Namespace: "default", Name: "g-0", Reason: "Pressure"}, {UID: "s", Namespace: "default", Name: "s", Reason: "Pressure"},
		}}})
		g.relief.Ready(g.now)
		g.now = g.now.Add(20 * time.Second)
		writes := g.relief.Ready(g.now)
		if len(writes) != 1 || writes[0].Pod != "s" {
			t.Errorf("one member is displaced: %v; started %v, and the single pod costs least", displaced, writes)
		}
	}
}
