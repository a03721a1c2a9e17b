package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// TestObligedUnitsTakeRoom: no pod or gang waits for its victims while nodes have room for it as they are, and none waits on a node that it must not go
// to. Room is counted anew, naively, whenever nothing is left to do. Victims end late or never; nodes are tainted, resized, removed and added.
// A pod that has no place has no nomination either.
func TestObligedUnitsTakeRoom(t *testing.T) {
	seen := make(map[string]int)
	rapid.Check(t, func(t *rapid.T) {
		w := newObligedWorld(t, seen)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			w.event()
			w.settle()
			w.check()
		}
	})
	for _, what := range []string{"obliged pods", "obliged gangs", "moved", "withdrawn"} {
		if seen[what] == 0 && !testing.Short() { // few histories need not have all of them
			t.Errorf("there were never: %s", what)
		}
	}
	t.Log(seen)
}

// obligedWorld is a small API server with one resource, and the Scheduler that writes to it.
type obligedWorld struct {
	t       *rapid.T
	s       *schedule.Scheduler
	now     time.Time
	nodes   map[string]*facts.Node
	pods    map[facts.UID]*facts.Pod
	gangs   int
	created int
	held    []bind.Write // not answered yet
	limit   int64        // of the queue; 0: there is none
	seen    map[string]int
	tied    func(*facts.Pod) // gives the pods that come now constraints; nil: they have none
}

func newObligedWorld(t *rapid.T, seen map[string]int) *obligedWorld {
	cfg := spec.Default().Scheduling
	cfg.Conditions.PerSecond, cfg.Conditions.Burst = 1e6, 1000
	w := &obligedWorld{t: t, now: time.Unix(1000, 0), nodes: make(map[string]*facts.Node), pods: make(map[facts.UID]*facts.Pod), seen: seen}
	s, err := schedule.New(schedule.Options{Config: cfg, Observer: obligedObserver{seen}})
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	if w.limit = rapid.SampledFrom([]int64{0, 0, 6, 10}).Draw(t, "limit"); w.limit > 0 {
		q := &facts.Queue{Name: "q", Weight: 1, Max: []resource.Quantity{{Name: "cpu", Amount: w.limit}}}
		s.Apply(facts.QueueUpserted{Queue: q}, w.now)
		s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "ns", Labels: []facts.Label{{Key: spec.LabelQueue, Value: "q"}}}}, w.now)
	}
	for i := range 3 {
		w.setNode(fmt.Sprint("n", i), 4, false)
	}
	return w
}

type obligedObserver struct{ seen map[string]int }

func (o obligedObserver) Released(_ *cluster.Pod, message string, _ time.Time) {
	switch {
	case message == "there is room for it that no victim has to leave":
		o.seen["moved"]++
	case len(message) > 20 && message[:20] == "the node has changed":
		o.seen["gave up"]++
	}
}
func (o obligedObserver) Rejected(string, time.Time)           { o.seen["rejected"]++ }
func (o obligedObserver) MissedWakeup(*cluster.Pod, time.Time) { o.seen["missed wake-ups"]++ }

func (obligedObserver) Placed(*cluster.Pod, time.Time)                                {}
func (obligedObserver) Preempting(*cluster.Pod, []*cluster.Pod, time.Time)            {}
func (obligedObserver) Cleared(*cluster.Pod, time.Time)                               {}
func (obligedObserver) Unschedulable(*cluster.Pod, []schedule.FilterCount, time.Time) {}
func (obligedObserver) Bound(*cluster.Pod, time.Time)                                 {}

func (w *obligedWorld) setNode(name string, cpu int64, tainted bool) {
	zone := map[bool]string{true: "a", false: "b"}[name <= "n1"]
	n := &facts.Node{Name: name, Labels: map[string]string{"zone": zone}, Allocatable: []resource.Quantity{{Name: "cpu", Amount: cpu}, {Name: "pods", Amount: 110}}}
	if tainted {
		n.Taints = []facts.Taint{{Key: "node.kubernetes.io/unreachable", Effect: facts.NoSchedule}}
	}
	w.nodes[name] = n
	w.s.Apply(facts.NodeUpserted{Node: n}, w.now)
}

func (w *obligedWorld) tell(p *facts.Pod) { w.s.Apply(facts.PodUpserted{Pod: *p}, w.now) }

func (w *obligedWorld) createPod(cpu int64, priority int32, unit string) {
	w.created++
	name := fmt.Sprint("p", w.created)
	p := &facts.Pod{
		UID: facts.UID(name), Namespace: "ns", Name: name, Ours: true, Created: int64(w.created), Priority: priority, Unit: unit,
		Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: cpu}}},
	}
	if w.tied != nil {
		w.tied(p)
	}
	w.pods[p.UID] = p
	w.tell(p)
}

// event lets one thing happen.
func (w *obligedWorld) event() {
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(w.t, "pause")) * time.Second)
	name := fmt.Sprint("n", rapid.IntRange(0, 3).Draw(w.t, "node"))
	switch rapid.IntRange(0, 8).Draw(w.t, "event") {
	case 0, 1, 2:
		for range rapid.IntRange(1, 3).Draw(w.t, "pods") {
			w.createPod(rapid.Int64Range(1, 4).Draw(w.t, "cpu"), rapid.Int32Range(0, 3).Draw(w.t, "priority"), "")
		}
	case 3:
		w.createGang()
	case 4, 5: // a pod ends; a victim may, or never
		w.end(func(p *facts.Pod) bool { return p.Node != "" && (p.Deleting || rapid.Bool().Draw(w.t, "ends")) })
	case 6:
		if n := w.nodes[name]; n != nil {
			w.setNode(name, n.Allocatable[0].Amount, len(n.Taints) == 0)
		}
	case 7:
		w.setNode(name, rapid.Int64Range(2, 8).Draw(w.t, "size"), false)
	case 8:
		if w.nodes[name] != nil {
			delete(w.nodes, name)
			w.s.Apply(facts.NodeRemoved{Name: name}, w.now)
		}
	}
}

func (w *obligedWorld) createGang() {
	w.gangs++
	name := fmt.Sprint("g", w.gangs)
	min := rapid.IntRange(2, 3).Draw(w.t, "min")
	w.s.Apply(facts.UnitUpserted{Unit: &facts.Unit{
		UnitName: facts.UnitName{Namespace: "ns", Name: name}, UID: facts.UID(name), MinMember: int32(min), Created: w.now.UnixNano(),
	}}, w.now)
	cpu, priority := rapid.Int64Range(1, 4).Draw(w.t, "cpu"), rapid.Int32Range(1, 3).Draw(w.t, "priority")
	for range min {
		w.createPod(cpu, priority, name)
	}
}

// end lets the first pod end that may.
func (w *obligedWorld) end(may func(*facts.Pod) bool) {
	for i := range w.created {
		uid := facts.UID(fmt.Sprint("p", i+1))
		if p := w.pods[uid]; p != nil && may(p) {
			delete(w.pods, uid)
			w.s.Apply(facts.PodRemoved{UID: uid}, w.now)
			return
		}
	}
}

// settle lets the Scheduler decide and write until it has nothing more to do. Now and then writes about placements are answered late.
func (w *obligedWorld) settle() {
	late := rapid.IntRange(0, 3).Draw(w.t, "late") == 0
	if !late {
		for _, write := range w.held {
			w.answer(&write)
		}
		w.held = nil
	}
	for rounds := 0; ; rounds++ {
		if rounds > 1000 {
			w.t.Fatal("the scheduler does not come to rest")
		}
		decisions := w.s.Step(w.now, 100)
		writes := slices.Clone(w.s.Ready(w.now))
		for i := range writes {
			if late && writes[i].Kind == bind.WriteNomination {
				w.held = append(w.held, writes[i])
				continue
			}
			w.answer(&writes[i])
		}
		if decisions+len(writes) == 0 {
			break
		}
	}
	if err := w.s.Verify(); err != nil {
		w.t.Fatal(err)
	}
}

// answer does a write. A pod that is deleted does not end by itself.
func (w *obligedWorld) answer(write *bind.Write) {
	p := w.pods[write.Pod]
	switch {
	case write.Kind == bind.WriteUnitCondition:
	case p == nil:
		w.s.Finish(bind.Result{ID: write.ID, Outcome: bind.Gone}, w.now)
		return
	case write.Kind == bind.WriteBinding:
		p.Node, p.Started = write.Node, w.now.UnixNano()
	case write.Kind == bind.WriteNomination:
		p.Nominated, p.Reported = write.Node, write.Condition
	case write.Kind == bind.DeletePod:
		p.Deleting = true
	case write.Kind == bind.WriteCondition:
		if write.Withdraw {
			w.seen["withdrawn"]++
			p.Nominated = ""
		}
		if write.Condition.Reason != "" {
			p.Reported = write.Condition
		}
	}
	w.s.Finish(bind.Result{ID: write.ID, Outcome: bind.Written}, w.now)
	if p != nil {
		w.tell(p)
	}
}

// check counts what is free, and looks for units that wait in vain.
func (w *obligedWorld) check() {
	store := w.s.Store()
	gangs := make(map[*cluster.Unit][]*cluster.Pod)
	store.EachPod(func(p *cluster.Pod) {
		switch {
		case p.Phase == cluster.Pending && p.Nominated != "" && w.pods[p.UID].Nominated != "" && len(w.held) == 0:
			w.t.Fatalf("pod %s has no place, but is nominated for %s", p.UID, p.Nominated)
		case p.Phase != cluster.Assumed || w.answerDue(p.UID):
		case p.Unit != nil:
			gangs[p.Unit] = append(gangs[p.Unit], p)
		case p.Obliged():
			w.checkObliged(p)
		default:
			w.t.Fatalf("pod %s waits on %s for nothing", p.UID, p.Node())
		}
	})
	for gang, members := range gangs {
		w.checkGang(gang, members)
	}
}

// answerDue reports whether a write about a pod is under way.
func (w *obligedWorld) answerDue(uid facts.UID) bool {
	return slices.ContainsFunc(w.held, func(write bind.Write) bool { return write.Pod == uid })
}

func (w *obligedWorld) checkObliged(p *cluster.Pod) {
	w.seen["obliged pods"]++
	cpu := w.pods[p.UID].Requirements.Requests[0].Amount
	for name := range w.nodes {
		if !w.overLimit() && w.free(name, p) >= cpu {
			w.t.Fatalf("pod %s waits on %s for %d victims, though node %s has room for it", p.UID, p.Node(), len(p.Victims()), name)
		}
	}
	away := []*cluster.Pod{p}
	for _, other := range w.s.Store().PodsOn(w.s.Store().Slot(p.Node())) {
		if other.Claimed() {
			away = append(away, other)
		}
	}
	if n := w.nodes[p.Node()]; n == nil || len(n.Taints) > 0 || w.free(p.Node(), away...) < cpu {
		w.t.Fatalf("pod %s waits for node %s, where it cannot go", p.UID, p.Node())
	}
}

func (w *obligedWorld) checkGang(gang *cluster.Unit, members []*cluster.Pod) {
	if slices.ContainsFunc(gang.Pods(), func(p *cluster.Pod) bool { return w.answerDue(p.UID) }) {
		return
	}
	if !slices.ContainsFunc(members, (*cluster.Pod).Obliged) {
		w.t.Fatalf("gang %s waits for nothing", gang)
	}
	w.seen["obliged gangs"]++
	room, cpu := 0, w.pods[members[0].UID].Requirements.Requests[0].Amount
	for name := range w.nodes {
		if w.reserved(name) {
			continue
		}
		room += int(max(w.free(name, members...), 0) / cpu)
	}
	if w.overLimit() {
		return
	}
	if room >= len(members) {
		w.t.Fatalf("gang %s waits for victims, though there is room for %d of its members", gang, room)
	}
}

// overLimit reports whether the queue has room for what has a place only when the victims have left.
func (w *obligedWorld) overLimit() bool {
	var used int64
	w.s.Store().EachPod(func(p *cluster.Pod) {
		if p.Node() != "" {
			used += w.pods[p.UID].Requirements.Requests[0].Amount
		}
	})
	return w.limit > 0 && used > w.limit
}

func (w *obligedWorld) reserved(node string) bool {
	store := w.s.Store()
	return store.Reservation(store.Slot(node)) != cluster.NoReservation
}

// free is what is free on a node without some pods, by what the ledger has placed there. A tainted node takes nothing, and one that
// is reserved for a gang only what is there already.
func (w *obligedWorld) free(node string, without ...*cluster.Pod) int64 {
	here := func(p *cluster.Pod) bool { return p.Node() == node }
	if len(w.nodes[node].Taints) > 0 || w.reserved(node) && !slices.ContainsFunc(without, here) {
		return 0
	}
	left := w.nodes[node].Allocatable[0].Amount
	w.s.Store().EachPod(func(p *cluster.Pod) {
		if p.Node() == node && !slices.Contains(without, p) {
			left -= w.pods[p.UID].Requirements.Requests[0].Amount
		}
	})
	return left
}

// TestListTakesAMemberWithTheVictims: a list no longer has the victims of a gang, nor one of its members. When the other one is told that its victim has left, the one
// that is gone was not looked at yet: what is gone is told of in the order of UIDs.
func TestListTakesAMemberWithTheVictims(t *testing.T) {
	for _, gone := range []facts.UID{"g-0", "g-1"} {
		now, moved := time.Unix(1000, 0), make(map[string]int)
		s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling, Observer: obligedObserver{moved}})
		if err != nil {
			t.Fatal(err)
		}
		cpu := func(amount int64) []resource.Quantity {
			return []resource.Quantity{{Name: "cpu", Amount: amount}, {Name: resource.NamePods, Amount: 10}}
		}
		pod := func(uid, node, unit string, priority int32) facts.Pod {
			return facts.Pod{UID: facts.UID(uid), Namespace: "ns", Name: uid, Ours: true, Node: node, Unit: unit, Priority: priority, Requirements: &facts.Requirements{Requests: cpu(4)[:1]}}
		}
		s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: "g"}, UID: "g", MinMember: 2}}, now)
		members := []facts.Pod{pod("g-0", "", "g", 5), pod("g-1", "", "g", 5)}
		for i, node := range []string{"n1", "n2"} {
			s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: node, Allocatable: cpu(4)}}, now)
			s.Apply(facts.PodUpserted{Pod: pod("a-"+node, node, "", 1)}, now)
			s.Apply(facts.PodUpserted{Pod: members[i]}, now)
		}
		evictedWithout(s, "", now)
		for _, m := range members {
			if !s.Store().Pod(m.UID).Obliged() {
				t.Fatalf("%s does not wait for a victim", m.UID)
			}
		}
		left := slices.DeleteFunc(members, func(p facts.Pod) bool { return p.UID == gone })
		s.Apply(facts.PodsListed{Pods: left}, now)
		if err := s.Verify(); err != nil {
			t.Fatal(err)
		}
		if p := s.Store().Pod(left[0].UID); p.Phase != cluster.Pending {
			t.Errorf("without %s, the other one is %s: want it to wait, for its gang is not whole", gone, p.Phase)
		}
	}
}
