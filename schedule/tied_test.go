package schedule_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestTiedUnitsTakeRoom: where constraints between pods decide who may go where, no pod or gang sleeps beside room for it, so that a flush finds none; and no pod
// waits for its victims beside a node that would take it as it is. Pods of one class may stand in different zones, and a gang's first member may open a zone for
// its second.
func TestTiedUnitsTakeRoom(t *testing.T) {
	seen := make(map[string]int)
	rapid.Check(t, func(t *rapid.T) {
		w := newObligedWorld(t, seen)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			kind := rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(t, "kind")
			w.tied = func(p *facts.Pod) { tie(p, kind) }
			w.event()
			w.settle()
			w.checkTied()
			w.s.Flush()
			w.settle()
			if seen["missed wake-ups"] > 0 {
				t.Fatal("a unit found its place by a flush only")
			}
		}
	})
	for _, what := range []string{"tied obliged pods", "moved"} {
		if seen[what] == 0 && !testing.Short() {
			t.Errorf("there were never: %s", what)
		}
	}
	t.Log(seen)
}

// tie gives a pod constraints by its kind: it is spread over the zones with others of its kind, or apart from them, or free.
func tie(p *facts.Pod, kind int) {
	if kind == 0 {
		return
	}
	label := facts.Label{Key: "app", Value: []string{1: "spread", 2: "apart"}[kind]}
	alike := facts.PodSelector{Namespaces: []string{"ns"}, Labels: facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: label.Key, Operator: facts.In, Values: []string{label.Value}}},
	}}
	p.Labels, p.Requirements.Requests[0].Amount = []facts.Label{label}, 2 // all of a kind are of one class
	if kind == 1 {
		p.Requirements.Spread = []facts.SpreadConstraint{{TopologyKey: "zone", MaxSkew: 1, MinDomains: 1, Hard: true, Pods: alike}}
	} else {
		p.Requirements.AntiAffinity = []facts.AffinityTerm{{TopologyKey: "zone", Pods: alike}}
	}
}

// checkTied looks for a pod that waits for victims beside room.
func (w *obligedWorld) checkTied() {
	store := w.s.Store()
	store.EachPod(func(p *cluster.Pod) {
		if p.Phase != cluster.Assumed || p.Unit != nil || !p.Obliged() || w.answerDue(p.UID) || w.overLimit() {
			return
		}
		w.seen["tied obliged pods"]++
		snapshot := cluster.NewSnapshot()
		snapshot.Advance(store)
		snapshot.Lift(p)
		for slot := range cluster.Slot(store.Slots()) {
			if rules.Fits(&snapshot.State, slot, p.Class) {
				w.t.Fatalf("pod %s waits on %s for %d victims, though node %s has room for it", p.UID, p.Node(), len(p.Victims()), store.Node(slot).Name)
			}
		}
	})
}

// tiedWorld is a scheduler whose writes all succeed. Victims end when the test says so.
type tiedWorld struct {
	*schedule.Scheduler
	now time.Time
}

func newTiedWorld(t *testing.T, zones map[string]int64) *tiedWorld {
	t.Helper()
	w := &tiedWorld{newSched(t), time.Unix(1000, 0)}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		n := revNode(name, int(zones[name]), 1000)
		n.Labels["zone"] = name[:1]
		w.Apply(facts.NodeUpserted{Node: n}, w.now)
	}
	return w
}

// pod has a pod of one CPU come.
func (w *tiedWorld) pod(uid, node, unit string, priority int32, kind int) {
	p := facts.Pod{
		UID: facts.UID(uid), Namespace: "ns", Name: uid, Ours: true, Node: node, Unit: unit, Priority: priority,
		Requirements: &facts.Requirements{Requests: rq("cpu", 1)},
	}
	if tie(&p, kind); kind > 0 {
		p.Requirements.Requests = rq("cpu", 1)
	}
	w.Apply(facts.PodUpserted{Pod: p}, w.now)
}

func (w *tiedWorld) gang(size int, priority int32, kind int) {
	w.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: "g"}, UID: "g", MinMember: int32(size)}}, w.now)
	for i := range size {
		w.pod(fmt.Sprint("g-", i), "", "g", priority, kind)
	}
	pump(w.Scheduler, w.now)
}

func (w *tiedWorld) end(uid facts.UID) {
	w.Apply(facts.PodRemoved{UID: uid}, w.now)
	pump(w.Scheduler, w.now)
}

// TestOnePlaceLetsInMore: zone a has places for four of a gang, of which only two may be there while zone b has no more. One place in b, where none of them may be as
// long as none is in a, is enough for all.
func TestOnePlaceLetsInMore(t *testing.T) {
	w := newTiedWorld(t, map[string]int64{"a1": 4, "b1": 2})
	w.pod("other", "b1", "", 0, 1)
	w.pod("ends", "b1", "", 0, 0)
	w.gang(4, 0, 1)
	if p := w.Store().Pod("g-0"); p.Node() != "" {
		t.Fatalf("g-0 is on %s, though the gang does not fit", p.Node())
	}
	w.end("ends")
	for i := range 4 {
		if p := w.Store().Pod(facts.UID(fmt.Sprint("g-", i))); p.Node() == "" {
			t.Errorf("%s has no place, though the gang fits now", p.UID)
		}
	}
}

// TestGangLeavesItsVictims: the members of a gang may not be in one zone. They wait for victims, and a node of the same two zones each comes free: that they are there
// themselves already does not keep them from these.
func TestGangLeavesItsVictims(t *testing.T) {
	w := newTiedWorld(t, map[string]int64{"a1": 1, "b1": 1, "a2": 1, "b2": 1})
	for _, node := range []string{"a1", "b1"} {
		w.pod("victim-"+node, node, "", 0, 0)
	}
	for _, node := range []string{"a2", "b2"} {
		w.pod("ends-"+node, node, "", 9, 0)
	}
	w.gang(2, 5, 2)
	for i := range 2 {
		if p := w.Store().Pod(facts.UID(fmt.Sprint("g-", i))); !p.Obliged() {
			t.Fatalf("%s does not wait for a victim", p.UID)
		}
	}
	w.end("ends-a2")
	w.end("ends-b2")
	for i := range 2 {
		if p := w.Store().Pod(facts.UID(fmt.Sprint("g-", i))); p.Obliged() || p.Node()[1:] != "2" {
			t.Errorf("%s waits for its victim on %s, though there is room for the gang", p.UID, p.Node())
		}
	}
}

// TestPodLeavesItsVictim: the same for a pod that is apart from others of its zone.
func TestPodLeavesItsVictim(t *testing.T) {
	w := newTiedWorld(t, map[string]int64{"a1": 1, "a2": 1})
	w.pod("victim", "a1", "", 0, 0)
	w.pod("ends", "a2", "", 9, 0)
	w.pod("apart", "", "", 5, 2)
	pump(w.Scheduler, w.now)
	if p := w.Store().Pod("apart"); !p.Obliged() {
		t.Fatal("it does not wait for a victim")
	}
	w.end("ends")
	if p := w.Store().Pod("apart"); p.Obliged() || p.Node() != "a2" {
		t.Errorf("it waits for its victim on %s, though a2 has room for it", p.Node())
	}
}

// TestOwnerFollowsConstraints: room is kept in zone a, and its owner may not go there as long as zone b has fewer of its kind. One comes to b: the owner has its room,
// though nothing has changed on the node.
func TestOwnerFollowsConstraints(t *testing.T) {
	w := newTiedWorld(t, map[string]int64{"a1": 1, "a2": 1})
	closed := revNode("b1", 1, 1000)
	closed.Labels["zone"], closed.Unschedulable = "b", true // it counts, and nobody else goes there
	w.Apply(facts.NodeUpserted{Node: closed}, w.now)
	w.pod("other", "a2", "", 0, 1)
	template := facts.Pod{UID: "kept", Namespace: "ns", Name: "kept", Ours: true, Requirements: &facts.Requirements{Requests: rq("cpu", 1)}}
	spread := facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{"spread"}}}}
	w.Apply(facts.ReservationUpserted{Reservation: &facts.Reservation{
		UID: "kept", Namespace: "ns", Name: "kept", Count: 1, Template: template, Owners: []facts.ReservationOwner{{Pods: &spread}},
	}}, w.now)
	pump(w.Scheduler, w.now)
	w.pod("owner", "", "", 0, 1)
	pump(w.Scheduler, w.now)
	if p := w.Store().Pod("owner"); p.Node() != "" {
		t.Fatalf("the owner is on %s, where it must not go", p.Node())
	}
	w.pod("second", "b1", "", 0, 1)
	pump(w.Scheduler, w.now)
	if p := w.Store().Pod("owner"); p.Node() != "a1" {
		t.Errorf("the owner is on %q, though it may have its room on a1 now", p.Node())
	}
}
