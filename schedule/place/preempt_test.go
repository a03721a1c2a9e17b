package place

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
)

// TestPreemptIsExact drives a ledger through random nodes, pods, budgets, placements and preemptions, and compares every preemption with
// brute force: each node is judged by ledgers built anew, from events, without the pods that are off.
func TestPreemptIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newBattle(t)
		for range rapid.IntRange(10, 100).Draw(t, "steps") {
			w.step(t)
			if err := w.store.Verify(); err != nil {
				t.Fatal(err)
			}
			if err := w.snapshot.Verify(); err != nil {
				t.Fatalf("snapshot: %v", err)
			}
			if over := w.store.Overcommitted(); len(over) > 0 && !w.shrunk {
				t.Fatalf("over-committed: %v", over)
			}
		}
	})
}

// battle is a small cluster in which everything changes.
type battle struct {
	store     *cluster.Store
	snapshot  *cluster.Snapshot
	placer    *Placer
	preemptor *victims.Preemptor
	pool      []*facts.Requirements
	facts     map[facts.UID]*facts.Pod
	nodes     map[string]*facts.Node
	reports   map[string]*facts.NodeReport
	budgets   map[string]*facts.Budget
	pods      int
	shrunk    bool // a node was replaced by another: whatever is over-committed then is nobody's fault
}

func newBattle(t *rapid.T) *battle {
	profile, err := rules.NewProfile(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &battle{
		store: cluster.NewStore(), snapshot: cluster.NewSnapshot(), facts: make(map[facts.UID]*facts.Pod),
		nodes: make(map[string]*facts.Node), reports: make(map[string]*facts.NodeReport), budgets: make(map[string]*facts.Budget),
	}
	w.placer = NewPlacer(w.snapshot, profile, 7, 4)
	w.preemptor = NewPreemptor(w.placer, w.store, rapid.IntRange(1, 3).Draw(t, "indexes"))
	constrained := rapid.Bool().Draw(t, "constrained")
	for range rapid.IntRange(1, 3).Draw(t, "classes") {
		r := drawRequirements(t)
		if constrained {
			drawConstraints(t, r)
		}
		if rapid.Bool().Draw(t, "plain") {
			r = &facts.Requirements{Requests: quantities(resource.NameCPU, 500*rapid.IntRange(1, 4).Draw(t, "request"))}
		}
		w.pool = append(w.pool, r)
	}
	for range 4 {
		w.upsertNode(t)
	}
	return w
}

func (w *battle) upsertNode(t *rapid.T) {
	n := drawNode(t)
	n.Name = fmt.Sprintf("n%d", rapid.IntRange(0, 3).Draw(t, "name"))
	n.Allocatable = quantities(resource.NameCPU, 1000*rapid.IntRange(1, 4).Draw(t, "cpu"), resource.NameMemory, 8<<30,
		resource.NamePods, rapid.IntRange(1, 6).Draw(t, "pods"))
	w.shrunk = w.shrunk || w.nodes[n.Name] != nil
	w.nodes[n.Name] = n
	w.store.Apply(facts.NodeUpserted{Node: n})
	w.report(t, n.Name)
}

func (w *battle) report(t *rapid.T, node string) {
	if report := drawReport(t); report != nil {
		w.shrunk = w.shrunk || w.reports[node] != nil
		w.reports[node] = report
		w.store.Apply(facts.NodeReported{Node: node, Report: report})
	}
}

func (w *battle) step(t *rapid.T) {
	switch rapid.IntRange(0, 15).Draw(t, "op") {
	case 0:
		w.upsertNode(t)
	case 1:
		name := fmt.Sprintf("n%d", rapid.IntRange(0, 3).Draw(t, "gone"))
		delete(w.nodes, name)
		w.shrunk = true
		w.store.Apply(facts.NodeRemoved{Name: name})
	case 2:
		b := &facts.Budget{
			Namespace: rapid.SampledFrom(spaces).Draw(t, "namespace"), Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "budget"),
			Pods: drawSelector(t), Allowed: rapid.Int32Range(0, 2).Draw(t, "allowed"),
		}
		if rapid.Bool().Draw(t, "disrupted") {
			b.Disrupted = []string{fmt.Sprint(rapid.IntRange(0, w.pods).Draw(t, "whom"))}
		}
		w.budgets[b.Namespace+"/"+b.Name] = b
		w.store.Apply(facts.BudgetUpserted{Budget: b})
	case 3, 4, 5, 6, 7, 8:
		w.change(t)
	default:
		w.arrive(t)
	}
}

// change lets something happen to a pod that is there.
func (w *battle) change(t *rapid.T) {
	if len(w.facts) == 0 {
		return
	}
	f, known := drawKnown(t, w.store, w.facts)
	what := rapid.IntRange(0, 6).Draw(t, "what")
	if known.Obliged() && what != 0 {
		return // nothing else about it counts until its Binding
	}
	switch what {
	case 0:
		delete(w.facts, f.UID)
		w.store.Apply(facts.PodRemoved{UID: f.UID})
		return
	case 1:
		f.Deleting = true
	case 2, 3:
		f.Labels = drawLabels(t)
	default:
		f.Started = rapid.Int64Range(1, 5).Draw(t, "started")
	}
	w.store.Apply(facts.PodUpserted{Pod: *f})
}

func (w *battle) arrive(t *rapid.T) {
	f := &facts.Pod{
		UID: facts.UID(fmt.Sprint(w.pods)), Name: fmt.Sprint(w.pods), Ours: true, Requirements: rapid.SampledFrom(w.pool).Draw(t, "class"),
		Namespace: rapid.SampledFrom(spaces).Draw(t, "namespace"), Labels: drawLabels(t), Priority: rapid.Int32Range(-1, 2).Draw(t, "priority"),
	}
	w.pods++
	w.facts[f.UID] = f
	w.store.Apply(facts.PodUpserted{Pod: *f})
	w.snapshot.Advance(w.store)
	pod := w.store.Pod(f.UID)
	if pod.Class.Absent != "" { // no node has it: it is held, and never placed
		return
	}
	plan := cluster.Plan{Placements: []cluster.Placement{{Pod: f.UID}}}
	choice, ok := w.placer.Place(pod.Class)
	if !ok {
		var found victims.Preemption
		if found, ok = w.compare(t, pod); !ok {
			return
		}
		choice = found.Choice
		for _, victim := range found.Victims {
			plan.Victims = append(plan.Victims, victim.UID)
		}
	}
	plan.Placements[0].Node, plan.Placements[0].Grant = w.snapshot.Node(choice.Slot).Name, choice.Grant
	if verdict := w.store.Commit(&plan, rules.Commits); !verdict.Committed {
		t.Fatalf("the ledger refused a decision made on its newest state: %v", verdict)
	}
	if pod.Obliged() != (len(plan.Victims) > 0) {
		t.Fatalf("%d victims, obliged: %v", len(plan.Victims), pod.Obliged())
	}
}

// compare holds a preemption against brute force.
func (w *battle) compare(t *rapid.T, pod *cluster.Pod) (victims.Preemption, bool) {
	got, ok := w.preemptor.Preempt(pod)
	want, cost := cluster.NoSlot, victims.Cost{}
	for i := range w.store.Slots() {
		slot := cluster.Slot(i)
		if w.store.Node(slot) == nil {
			continue
		}
		c, candidate := w.naive(pod, slot)
		if candidate && (want == cluster.NoSlot || c.Compare(cost) < 0 || c == cost && w.placer.index.Tie(slot) > w.placer.index.Tie(want)) {
			want, cost = slot, c
		}
	}
	if ok != (want != cluster.NoSlot) || ok && (got.Slot != want || got.Cost != cost) {
		t.Fatalf("preempts on slot %d at %+v (%v), brute force says %d at %+v", got.Slot, got.Cost, ok, want, cost)
	}
	for _, c := range w.preemptor.Candidates(pod) {
		if naive, ok := w.naive(pod, c.Slot); !ok || naive != c.Cost {
			t.Fatalf("candidate %d at %+v, brute force says %+v (%v)", c.Slot, c.Cost, naive, ok)
		}
	}
	for _, victim := range got.Victims {
		if victim.Priority >= pod.Priority {
			t.Fatalf("victim %s of priority %d for %d", victim.UID, victim.Priority, pod.Priority)
		}
	}
	return got, ok
}

// without asks a ledger made of the same nodes and pods, but those in off, whether the pod fits on a node, and by which filter not.
func (w *battle) without(pod *cluster.Pod, node string, off map[*cluster.Pod]bool) (refusedBy string) {
	fresh := cluster.NewStore()
	for _, n := range w.nodes {
		fresh.Apply(facts.NodeUpserted{Node: n})
		if report := w.reports[n.Name]; report != nil {
			fresh.Apply(facts.NodeReported{Node: n.Name, Report: report})
		}
	}
	for uid, f := range w.facts {
		other := w.store.Pod(uid)
		if other == pod || other.Node() == "" || off[other] {
			continue
		}
		copied := *f
		copied.Node, copied.Grant = other.Node(), other.Grant()
		fresh.Apply(facts.PodUpserted{Pod: copied})
	}
	copied := *w.facts[pod.UID]
	fresh.Apply(facts.PodUpserted{Pod: copied})
	slot, class := fresh.Slot(node), fresh.Pod(pod.UID).Class
	if refused := rules.FirstRefusal(&fresh.State, slot, class); refused >= 0 {
		return rules.Filters[refused].Name
	}
	return ""
}

// naive is upstream's dry run of one node, spelt out.
func (w *battle) naive(pod *cluster.Pod, slot cluster.Slot) (cost victims.Cost, ok bool) {
	node := w.store.Node(slot).Name
	var lower []*cluster.Pod
	for _, p := range w.store.PodsOn(slot) {
		if p.Priority < pod.Priority {
			lower = append(lower, p)
		}
	}
	off := make(map[*cluster.Pod]bool)
	for _, p := range lower {
		off[p] = true
	}
	if len(lower) == 0 || w.without(pod, node, off) != "" {
		return cost, false
	}
	slices.SortFunc(lower, cluster.MoreImportant)
	left := make(map[*facts.Budget]int32)
	var first, second []*cluster.Pod
	for _, p := range lower {
		if w.breaks(p, left) {
			first = append(first, p)
		} else {
			second = append(second, p)
		}
	}
	cost = victims.Cost{Highest: math.MinInt32, Start: math.MaxInt64}
	for i, p := range append(slices.Clone(first), second...) {
		off[p] = false
		if w.without(pod, node, off) == "" {
			continue
		}
		off[p] = true
		if i < len(first) {
			cost.Violations++
		}
		cost.Count++
		cost.Sum += int64(p.Priority) + math.MaxInt32 + 1
		start := p.Started
		if start == 0 {
			start = math.MaxInt64
		}
		if p.Priority > cost.Highest || p.Priority == cost.Highest && start < cost.Start {
			cost.Highest, cost.Start = p.Priority, start
		}
	}
	return cost, cost.Count > 0
}

func (w *battle) breaks(p *cluster.Pod, left map[*facts.Budget]int32) bool {
	labels := w.facts[p.UID].Labels
	for _, name := range []string{"a", "b"} {
		b := w.budgets[p.Namespace+"/"+name]
		if b == nil || len(labels) == 0 || len(b.Pods.Expressions) == 0 || b.Pods.Nothing || !b.Pods.Matches(labels) || slices.Contains(b.Disrupted, p.Name) {
			continue
		}
		if _, ok := left[b]; !ok {
			left[b] = b.Allowed
		}
		left[b]--
		if left[b] < 0 {
			return true
		}
	}
	return false
}

// full returns a preemptor over nodes that are each full with ten pods of priorities 0 to 9, and the ledger.
func full(tb testing.TB, nodes int) (*cluster.Store, *victims.Preemptor) {
	tb.Helper()
	store := cluster.NewStore()
	quarter := &facts.Requirements{Requests: quantities(resource.NameCPU, 100)}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: name, Allocatable: quantities(resource.NameCPU, 1000, resource.NameMemory, 1<<30, resource.NamePods, 110),
		}})
		for j := range 10 {
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: facts.UID(fmt.Sprintf("%s-%d", name, j)), Name: fmt.Sprintf("%s-%d", name, j), Node: name, Priority: int32(j), Started: int64(1 + i*7919%nodes), Requirements: quarter,
			}})
		}
	}
	profile, err := rules.NewProfile(nil)
	if err != nil {
		tb.Fatal(err)
	}
	snapshot := cluster.NewSnapshot()
	return store, NewPreemptor(NewPlacer(snapshot, profile, 1, 8), store, 8)
}

// What makes another node cheaper without a change of what is on it must be followed too.
func TestPreemptFollowsOrder(t *testing.T) {
	store, e := full(t, 2)
	r := &facts.Requirements{Requests: quantities(resource.NameCPU, 100)}
	store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "p", Ours: true, Priority: 100, Requirements: r}})
	expect := func(what, victim string) {
		t.Helper()
		found, ok := e.Preempt(store.Pod("p"))
		if !ok || len(found.Victims) != 1 || string(found.Victims[0].UID) != victim {
			t.Errorf("%s: %+v (%v), want %s", what, found, ok, victim)
		}
	}
	lowest := func(node string, start int64) {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(node + "-0"), Node: node, Started: start, Labels: []facts.Label{{Key: "on", Value: node}},
			Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, 100)},
		}})
	}
	lowest("n0", 10)
	lowest("n1", 20)
	expect("the later start", "n1-0")
	lowest("n0", 30)
	expect("n0-0 has started anew", "n0-0")
	budget := &facts.Budget{Name: "b", Pods: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "on", Operator: facts.In, Values: []string{"n0"}}}}}
	store.Apply(facts.BudgetUpserted{Budget: budget})
	expect("a budget spares n0-0", "n1-0")
	disrupted := *budget
	disrupted.Disrupted = []string{"n0-0"}
	store.Apply(facts.BudgetsListed{Budgets: []*facts.Budget{&disrupted}})
	expect("the budget counts n0-0 as gone", "n0-0")
	store.Apply(facts.BudgetsListed{Budgets: []*facts.Budget{budget}})
	expect("and not any more", "n1-0")
	store.Apply(facts.BudgetRemoved{Name: "b"})
	expect("no budget", "n0-0")
}

// BenchmarkPreempt measures one preemption with one victim at 5,000 full nodes: event, decision, commit, the victim's leaving and the
// preemptor's, so that the cluster stays as full as it was.
func BenchmarkPreempt(b *testing.B) {
	const nodes = 5000
	store, e := full(b, nodes)
	r := &facts.Requirements{Requests: quantities(resource.NameCPU, 100)}
	pod := 0
	b.ReportAllocs()
	for b.Loop() {
		uid := facts.UID(fmt.Sprint("p", pod))
		pod++
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Ours: true, Priority: 100, Requirements: r}})
		found, ok := e.Preempt(store.Pod(uid))
		if !ok || len(found.Victims) != 1 {
			b.Fatalf("%+v, %v", found, ok)
		}
		victim := found.Victims[0]
		seen := facts.Pod{UID: victim.UID, Node: victim.Node(), Priority: victim.Priority, Started: int64(pod), Requirements: r}
		plan := cluster.Plan{
			Placements: []cluster.Placement{{Pod: uid, Node: store.Node(found.Slot).Name}}, Victims: []facts.UID{victim.UID},
		}
		if verdict := store.Commit(&plan, rules.Commits); !verdict.Committed {
			b.Fatal(verdict)
		}
		store.Apply(facts.PodRemoved{UID: victim.UID})
		store.Apply(facts.PodRemoved{UID: uid})
		store.Apply(facts.PodUpserted{Pod: seen})
	}
}

// BenchmarkHopeless measures a preemption that cannot be: on its first evaluation, because everybody is as important, and because nobody
// has that much room.
func BenchmarkHopeless(b *testing.B) {
	store, e := full(b, 5000)
	for _, c := range []struct {
		name     string
		priority int32
		cpu      int
	}{{"priority", 0, 100}, {"size", 100, 2000}} {
		b.Run(c.name, func(b *testing.B) {
			r := &facts.Requirements{Requests: quantities(resource.NameCPU, c.cpu)}
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "p", Ours: true, Priority: c.priority, Requirements: r}})
			for b.Loop() {
				store.Pod("p").Priority++ // so that no costs of an earlier round are kept
				if _, ok := e.Preempt(store.Pod("p")); ok {
					b.Fatal("preempts")
				}
			}
			store.Apply(facts.PodRemoved{UID: "p"})
		})
	}
}

// drawKnown draws a pod that is there, with what was last said of it and where the ledger has it.
func drawKnown(t *rapid.T, store *cluster.Store, seen map[facts.UID]*facts.Pod) (*facts.Pod, *cluster.Pod) {
	f := seen[rapid.SampledFrom(slices.Sorted(maps.Keys(seen))).Draw(t, "pod")]
	known := store.Pod(f.UID)
	f.Node, f.Grant = known.Node(), known.Grant()
	return f, known
}
