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
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// TestGrowthEvictsOnlyWhoIsNamed: whoever runs on a node, comes there and leaves, who may be evicted for a growth, and whatever is said of that meanwhile:
//   - nobody is deleted for it but a pod that was named, of lower priority than the growth and than the pod that grows;
//   - nobody at all for a pod whose policy is Never, that runs elsewhere or in another namespace, or whose priority the growth exceeds;
//   - nothing is written about the placeholder, which is no pod, and the place is Reserved only when its victims have left and it fits;
//   - where all of lower priority on the node were named, and what is left has room for it, it comes to be Reserved.
func TestGrowthEvictsOnlyWhoIsNamed(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	rapid.Check(t, func(t *rapid.T) {
		w := newGrowthWorld(t)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			w.change(t)
			w.settle(t)
		}
		w.rest(t, seen)
	})
	for _, what := range []string{"reserved after evictions", "waits"} {
		if seen[what] == 0 && !testing.Short() { // few histories need not have both
			t.Errorf("it never %s", what)
		}
	}
}

const growthCPUs = 8

// growthWorld is a node with a pod that is to grow, and others.
type growthWorld struct {
	s     *schedule.Scheduler
	now   time.Time
	grows facts.Pod
	room  *facts.Reservation
	on    string // the node that the growth is bound to
	pods  map[facts.UID]facts.Pod
	slow  map[facts.UID]bool // victims that take their time
	gone  int                // victims
}

func newGrowthWorld(t *rapid.T) *growthWorld {
	w := &growthWorld{s: newSched(&testing.T{}), now: time.Unix(1, 0), pods: make(map[facts.UID]facts.Pod), slow: make(map[facts.UID]bool), on: "n0"}
	if rapid.Bool().Draw(t, "queues") {
		w.s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "q", Weight: 1}}, w.now)
		w.s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "ns", Labels: []facts.Label{{Key: spec.LabelQueue, Value: "q"}}}}, w.now)
	}
	for i := range 2 {
		w.s.Apply(facts.NodeUpserted{Node: revNode(fmt.Sprintf("n%d", i), growthCPUs*1000, 64)}, w.now)
	}
	w.grows = w.pod("grows", 1, int32(rapid.IntRange(1, 3).Draw(t, "grows at")))
	w.grows.Node = rapid.SampledFrom([]string{"n0", "n0", "n0", "n0", "n1"}).Draw(t, "runs on")
	w.grows.NeverPreempts = rapid.IntRange(0, 4).Draw(t, "never") == 0
	if rapid.IntRange(0, 6).Draw(t, "elsewhere") == 0 {
		w.grows.Namespace = "other"
	}
	w.tell(w.grows)
	for i := range rapid.IntRange(1, 6).Draw(t, "others") {
		w.others(t, i)
	}
	template := w.pod("", int64(rapid.IntRange(1, 7).Draw(t, "by")), int32(rapid.IntRange(0, 3).Draw(t, "priority")))
	template.Requirements.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{w.on}}}}}
	w.room = &facts.Reservation{UID: "r", Name: "r", Namespace: "ns", Count: 1, Template: template, Owners: []facts.ReservationOwner{{Pods: &facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: spec.LabelGrowth, Operator: facts.In, Values: []string{"grows"}}},
	}}}}
	w.name(t)
	return w
}

func (w *growthWorld) pod(name string, cpus int64, priority int32) facts.Pod {
	return facts.Pod{
		UID: facts.UID(name), Name: name, Namespace: "ns", Ours: true, Created: w.now.UnixNano(), Priority: priority,
		Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: cpus * 1000}}},
	}
}

func (w *growthWorld) tell(p facts.Pod) {
	w.pods[p.UID] = p
	w.s.Apply(facts.PodUpserted{Pod: p}, w.now)
}

// others adds a pod that runs beside, if there is room for it.
func (w *growthWorld) others(t *rapid.T, i int) {
	p := w.pod(fmt.Sprintf("p%d", i), int64(rapid.IntRange(1, 3).Draw(t, "cpus")), int32(rapid.IntRange(0, 3).Draw(t, "priority")))
	p.Node = "n0"
	_, there := w.pods[p.UID]
	if s := &w.s.Store().State; !there && s.Free(w.s.Store().Slot("n0"), resource.CPU) >= p.Requirements.Requests[0].Amount {
		w.tell(p)
	}
}

// name says anew who may be evicted: any of them.
func (w *growthWorld) name(t *rapid.T) {
	r := *w.room
	r.MayEvict = nil
	all := rapid.IntRange(0, 1).Draw(t, "all are named") == 0
	for i := range 8 {
		if all || rapid.Bool().Draw(t, "is named") {
			r.MayEvict = append(r.MayEvict, facts.UID(fmt.Sprintf("p%d", i)))
		}
	}
	w.room = &r
	w.s.Apply(facts.ReservationUpserted{Reservation: w.room}, w.now)
}

func (w *growthWorld) change(t *rapid.T) {
	w.now = w.now.Add(time.Second)
	switch i := rapid.IntRange(0, 7).Draw(t, "which"); rapid.IntRange(0, 4).Draw(t, "op") {
	case 0:
		w.name(t)
	case 1:
		w.others(t, i)
	case 2, 3: // somebody leaves, be it a victim
		uid := facts.UID(fmt.Sprintf("p%d", i))
		delete(w.pods, uid)
		delete(w.slow, uid)
		w.s.Apply(facts.PodRemoved{UID: uid}, w.now)
	case 4: // one waits that could have the room, too
		if uid := fmt.Sprintf("w%d", i); w.pods[facts.UID(uid)].UID == "" {
			p := w.pod(uid, 2, int32(rapid.IntRange(0, 3).Draw(t, "priority")))
			p.NeverPreempts = true
			w.tell(p)
		}
	}
}

func (w *growthWorld) settle(t *rapid.T) {
	for range 200 {
		n := w.s.Step(w.now, 100)
		w.look(t)
		writes := slices.Clone(w.s.Ready(w.now))
		for i := range writes {
			w.answer(t, &writes[i])
		}
		if err := w.s.Verify(); err != nil {
			t.Fatal(err)
		}
		if n == 0 && len(writes) == 0 {
			return
		}
	}
	t.Fatalf("the scheduler does not come to rest:\n%s%s", script.Dump(w.s.Store()), script.Reservations(w.s.Store()))
}

func (w *growthWorld) answer(t *rapid.T, write *bind.Write) {
	if write.Pod == "r/0" {
		t.Fatalf("a write about the placeholder: %+v", write)
	}
	w.s.Finish(bind.Result{ID: write.ID, Outcome: bind.Written}, w.now)
	switch write.Kind {
	case bind.WriteBinding:
		p := w.pods[write.Pod]
		p.Node = write.Node
		w.tell(p)
	case bind.DeletePod:
		p := w.pods[write.Pod]
		switch {
		case !slices.Contains(w.room.MayEvict, p.UID):
			if !w.slow[p.UID] { // else it was chosen when it was named
				t.Fatalf("%s is evicted, and was not named", p.UID)
			}
		case w.grows.NeverPreempts || w.grows.Namespace != "ns" || w.grows.Node != w.on || w.room.Template.Priority > w.grows.Priority:
			t.Fatalf("%s is evicted for a pod that may not preempt it", p.UID)
		case p.Priority >= w.room.Template.Priority:
			t.Fatalf("%s of priority %d is evicted for a growth of %d", p.UID, p.Priority, w.room.Template.Priority)
		}
		w.gone++
		if w.slow[p.UID] = rapid.Bool().Draw(t, "takes its time"); w.slow[p.UID] {
			p.Deleting = true
			w.tell(p)
			return
		}
		delete(w.pods, p.UID)
		w.s.Apply(facts.PodRemoved{UID: p.UID}, w.now)
	default:
	}
}

// look holds the place to what is there.
func (w *growthWorld) look(t *rapid.T) {
	store := w.s.Store()
	v, _ := store.Placeholders().View("ns", "r")
	place := store.Pod("r/0")
	if v.Places[0].State == facts.PlaceReserved && (place == nil || place.Phase != cluster.Bound || place.Obliged()) {
		t.Fatalf("it is Reserved, and its placeholder is %+v", place)
	}
	if free := store.Free(store.Slot(w.on), resource.CPU); v.Places[0].State == facts.PlaceReserved && free < 0 {
		t.Fatalf("it is Reserved, and %d are free", free)
	}
}

// rest lets all victims leave, names everybody, and asks whether the growth has what it may have.
func (w *growthWorld) rest(t *rapid.T, seen map[string]int) {
	for uid := range w.slow {
		delete(w.pods, uid)
		w.s.Apply(facts.PodRemoved{UID: uid}, w.now)
	}
	r := *w.room
	r.MayEvict = []facts.UID{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"}
	w.room = &r
	w.s.Apply(facts.ReservationUpserted{Reservation: w.room}, w.now)
	for range 8 {
		w.now = w.now.Add(time.Minute)
		w.settle(t)
		for uid := range w.slow {
			delete(w.slow, uid)
			delete(w.pods, uid)
			w.s.Apply(facts.PodRemoved{UID: uid}, w.now)
		}
	}
	stays, unnamed := int64(0), false // on the node whatever the growth may do; the search may come to one that was not named, and waits then, though others would do
	for _, p := range w.pods {
		switch {
		case p.Node != w.on:
		case p.Priority >= w.room.Template.Priority:
			stays += p.Requirements.Requests[0].Amount
		case !slices.Contains(r.MayEvict, p.UID):
			unnamed = true
		}
	}
	may := !w.grows.NeverPreempts && w.grows.Namespace == "ns" && w.grows.Node == w.on && w.room.Template.Priority <= w.grows.Priority
	v, _ := w.s.Store().Placeholders().View("ns", "r")
	state := v.Places[0].State
	if state == facts.PlaceWaiting {
		seen["waits"]++
		if may && !unnamed && stays+w.room.Template.Requirements.Requests[0].Amount <= growthCPUs*1000 {
			t.Fatalf("it waits, and %d stay:\n%s%s", stays, script.Dump(w.s.Store()), script.Reservations(w.s.Store()))
		}
	}
	if state == facts.PlaceReserved && w.gone > 0 {
		seen["reserved after evictions"]++
	}
}

// TestGrowthEvictsNobodyWhoseBindingIsOnItsWay: the pod would run by the time it is evicted, and was not named.
func TestGrowthEvictsNobodyWhoseBindingIsOnItsWay(t *testing.T) {
	t.Parallel()
	w := &growthWorld{s: newSched(t), now: time.Unix(1, 0), pods: make(map[facts.UID]facts.Pod)}
	w.s.Apply(facts.NodeUpserted{Node: revNode("n0", growthCPUs*1000, 64)}, w.now)
	grows, comes := w.pod("grows", 1, 2), w.pod("comes", 6, 0)
	grows.Node = "n0"
	w.tell(grows)
	w.tell(comes)
	w.s.Step(w.now, 100)
	sent := slices.Clone(w.s.Ready(w.now))
	if len(sent) != 1 || sent[0].Kind != bind.WriteBinding {
		t.Fatalf("sent %+v, want a Binding", sent)
	}
	template := w.pod("", 4, 2)
	template.Requirements.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{"n0"}}}}}
	w.s.Apply(facts.ReservationUpserted{Reservation: &facts.Reservation{
		UID: "r", Name: "r", Namespace: "ns", Count: 1, Template: template, MayEvict: []facts.UID{"another"},
		Owners: []facts.ReservationOwner{{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{{Key: spec.LabelGrowth, Operator: facts.In, Values: []string{"grows"}}}}}},
	}}, w.now)
	w.s.Step(w.now, 100)
	w.s.Finish(bind.Result{ID: sent[0].ID, Outcome: bind.Written}, w.now)
	comes.Node = "n0"
	w.tell(comes)
	for range 10 {
		w.s.Step(w.now, 100)
		for _, write := range slices.Clone(w.s.Ready(w.now)) {
			if write.Kind == bind.WriteDisruption || write.Kind == bind.DeletePod {
				t.Fatalf("%s is evicted, and was not named", write.Pod)
			}
			w.s.Finish(bind.Result{ID: write.ID, Outcome: bind.Written}, w.now)
		}
	}
}

// TestGrowthWaitsForTheLeastHarm: a growth waits while the least harm would be to evict a pod that was not named, though to evict one that was named would do.
func TestGrowthWaitsForTheLeastHarm(t *testing.T) {
	t.Parallel()
	w := &growthWorld{s: newSched(t), now: time.Unix(1, 0), pods: make(map[facts.UID]facts.Pod)}
	w.s.Apply(facts.NodeUpserted{Node: revNode("n0", growthCPUs*1000, 64)}, w.now)
	older, younger := w.pod("older", 1, 0), w.pod("younger", 2, 0)
	younger.Created++
	for _, p := range []facts.Pod{w.pod("grows", 1, 2), w.pod("stays", 2, 1), older, younger} {
		p.Node = "n0"
		w.tell(p)
	}
	template := w.pod("", 3, 1)
	template.Requirements.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{"n0"}}}}}
	named := func(uids ...facts.UID) (evicted []facts.UID) {
		w.s.Apply(facts.ReservationUpserted{Reservation: &facts.Reservation{
			UID: "r", Name: "r", Namespace: "ns", Count: 1, Template: template, MayEvict: uids,
			Owners: []facts.ReservationOwner{{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{{Key: spec.LabelGrowth, Operator: facts.In, Values: []string{"grows"}}}}}},
		}}, w.now)
		for range 10 {
			w.now = w.now.Add(time.Second)
			w.s.Step(w.now, 100)
			for _, write := range slices.Clone(w.s.Ready(w.now)) {
				if write.Kind == bind.DeletePod {
					evicted = append(evicted, write.Pod)
				}
				w.s.Finish(bind.Result{ID: write.ID, Outcome: bind.Written}, w.now)
			}
		}
		return evicted
	}
	if got := named("older"); len(got) > 0 {
		t.Errorf("%v are evicted, where the least harm is to a pod that was not named", got)
	}
	if got := named("older", "younger"); !slices.Equal(got, []facts.UID{"younger"}) {
		t.Errorf("evicted: %v, want younger", got)
	}
}

// TestGrowthLooksAgain: whoever would have been evicted for the least harm was not named, and leaves by itself. Then those that were named are evicted, though the Reservation says
// nothing new.
func TestGrowthLooksAgain(t *testing.T) {
	t.Parallel()
	w := &growthWorld{s: newSched(t), now: time.Unix(1, 0), pods: make(map[facts.UID]facts.Pod)}
	w.s.Apply(facts.NodeUpserted{Node: revNode("n0", growthCPUs*1000, 64)}, w.now)
	for _, p := range []facts.Pod{w.pod("grows", 1, 2), w.pod("named", 4, 1), w.pod("cheaper", 3, 0)} {
		p.Node = "n0"
		w.tell(p)
	}
	template := w.pod("", 3, 2)
	template.Requirements.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{"n0"}}}}}
	w.s.Apply(facts.ReservationUpserted{Reservation: &facts.Reservation{
		UID: "r", Name: "r", Namespace: "ns", Count: 1, Template: template, MayEvict: []facts.UID{"named"},
		Owners: []facts.ReservationOwner{{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{{Key: spec.LabelGrowth, Operator: facts.In, Values: []string{"grows"}}}}}},
	}}, w.now)
	evicted := func() (uids []facts.UID) {
		for range 10 {
			w.now = w.now.Add(time.Second)
			w.s.Step(w.now, 100)
			for _, write := range slices.Clone(w.s.Ready(w.now)) {
				if write.Kind == bind.DeletePod {
					uids = append(uids, write.Pod)
				}
				w.s.Finish(bind.Result{ID: write.ID, Outcome: bind.Written}, w.now)
			}
			if err := w.s.Verify(); err != nil {
				t.Fatal(err)
			}
		}
		return uids
	}
	if got := evicted(); len(got) > 0 {
		t.Fatalf("%v are evicted; they were not named, or do more harm", got)
	}
	w.s.Apply(facts.PodRemoved{UID: "cheaper"}, w.now)
	comes := w.pod("comes", 3, 5)
	comes.Node = "n0"
	w.tell(comes)
	if got := evicted(); !slices.Equal(got, []facts.UID{"named"}) {
		t.Errorf("evicted: %v, want named", got)
	}
}
