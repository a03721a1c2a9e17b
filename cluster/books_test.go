package cluster_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/dumpfile"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/jsonstream"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// town is a small ledger and all that it was told last, so that another can be told the same in another order.
type town struct {
	store      *cluster.Store
	queues     map[string]*facts.Queue
	namespaces map[string]facts.Namespace
	units      map[facts.UnitName]*facts.Unit
}

func newTown() *town {
	w := &town{
		store: cluster.NewStore(), queues: map[string]*facts.Queue{}, namespaces: map[string]facts.Namespace{},
		units: map[facts.UnitName]*facts.Unit{},
	}
	for i := range 4 {
		w.store.Apply(facts.NodeUpserted{Node: townNode(i)})
	}
	return w
}

func townNode(i int) *facts.Node {
	return &facts.Node{
		Name: fmt.Sprint("n", i), Labels: map[string]string{"zone": fmt.Sprint("z", i%2), facts.HostnameKey: fmt.Sprint("n", i)},
		GPU: topology.Shape{GPUs: 2, Shareable: true},
		Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 4000}, {Name: resource.NameMemory, Amount: 8 << 30}, {Name: resource.NamePods, Amount: 6},
		},
	}
}

var townNeeds = func() []*facts.Requirements {
	blue := facts.PodSelector{Namespaces: []string{"x", "y", "z"}, Labels: facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: "color", Operator: facts.In, Values: []string{"blue"}}},
	}}
	cpu := []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}}
	return []*facts.Requirements{
		{Requests: cpu, ScoreCPU: 1000},
		{Requests: []resource.Quantity{{Name: resource.NameMemory, Amount: 1 << 30}}, Ports: []facts.HostPort{{Protocol: "TCP", IP: facts.AnyIP, Port: 80}, {Protocol: "TCP", IP: facts.AnyIP, Port: 81}}},
		{Requests: cpu, Ports: []facts.HostPort{{Protocol: "TCP", IP: facts.AnyIP, Port: 90}}},
		{GPU: topology.Request{Milli: 400}},
		{GPU: topology.Request{Whole: 1}},
		{Requests: cpu, AntiAffinity: []facts.AffinityTerm{{TopologyKey: facts.HostnameKey, Pods: blue}}},
		{Requests: cpu, Spread: []facts.SpreadConstraint{{TopologyKey: "zone", MaxSkew: 1, Hard: true, MinDomains: 1, Pods: blue}}},
	}
}()

func oneOf[T any](t *rapid.T, what string, list ...T) T { return rapid.SampledFrom(list).Draw(t, what) }

var absurd = []int64{0, 1, 1000, 3000, 3001, 8000, -5, 1 << 40, math.MaxInt64/2 + 1, math.MaxInt64 - 1, math.MaxInt64, math.MinInt64}

func drawAmounts(t *rapid.T, what string) (list []resource.Quantity) {
	for _, name := range []string{resource.NameCPU, spec.ResourceGPUMilli} {
		if rapid.Bool().Draw(t, what+" names "+name) {
			list = append(list, resource.Quantity{Name: name, Amount: rapid.SampledFrom(absurd).Draw(t, what)})
		}
	}
	return list
}

var townQueues = []string{"a", "b", "c", "d", "default"}

func drawQueue(t *rapid.T) *facts.Queue {
	q := &facts.Queue{
		Name: oneOf(t, "queue", townQueues...), Parent: oneOf(t, "parent", append(townQueues, "", "", "", "nowhere")...),
		Generation: rapid.Int64Range(0, 2).Draw(t, "generation"), Guaranteed: drawAmounts(t, "guaranteed"),
		BorrowsNothing: rapid.Bool().Draw(t, "borrows nothing"), Weight: rapid.Int64Range(0, 3).Draw(t, "weight"),
	}
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		q.Max = drawAmounts(t, "max")
	}
	if rapid.IntRange(0, 2).Draw(t, "selects") == 0 {
		q.Namespaces = &facts.LabelSelector{Expressions: []facts.Requirement{{Key: "team", Operator: facts.In, Values: []string{oneOf(t, "team", "1", "2")}}}}
	}
	return q
}

func drawNamespace(t *rapid.T) facts.Namespace {
	n := facts.Namespace{Name: oneOf(t, "namespace", "x", "y", "z")}
	if queue := oneOf(t, "label", "-", "-", "", "a", "b", "c", "nobody", "default"); queue != "-" {
		n.Labels = append(n.Labels, facts.Label{Key: spec.LabelQueue, Value: queue})
	}
	if team := oneOf(t, "team", "", "1", "2"); team != "" {
		n.Labels = append(n.Labels, facts.Label{Key: "team", Value: team})
	}
	return n
}

func (w *town) step(t *rapid.T) {
	switch rapid.IntRange(0, 13).Draw(t, "op") {
	case 0, 1:
		q := drawQueue(t)
		w.queues[q.Name] = q
		w.store.Apply(facts.QueueUpserted{Queue: q})
	case 2:
		name := oneOf(t, "queue", townQueues...)
		delete(w.queues, name)
		w.store.Apply(facts.QueueRemoved{Name: name})
	case 3:
		clear(w.queues)
		var list []*facts.Queue
		for range rapid.IntRange(0, 4).Draw(t, "queues") {
			if q := drawQueue(t); w.queues[q.Name] == nil {
				w.queues[q.Name] = q
				list = append(list, q)
			}
		}
		w.store.Apply(facts.QueuesListed{Queues: list})
	case 4, 5:
		n := drawNamespace(t)
		w.namespaces[n.Name] = n
		w.store.Apply(facts.NamespaceUpserted{Namespace: n})
	case 6:
		name := oneOf(t, "namespace", "x", "y", "z")
		delete(w.namespaces, name)
		w.store.Apply(facts.NamespaceRemoved{Name: name})
	default:
		w.stepPods(t)
	}
}

// stepPods does something to pods, units or nodes.
func (w *town) stepPods(t *rapid.T) {
	switch rapid.IntRange(0, 13).Draw(t, "pods") {
	case 0:
		if name := fmt.Sprint("n", rapid.IntRange(0, 3).Draw(t, "node")); rapid.Bool().Draw(t, "gone") {
			w.store.Apply(facts.NodeRemoved{Name: name})
		} else {
			w.store.Apply(facts.NodeUpserted{Node: townNode(int(name[1] - '0'))})
		}
	case 1, 2:
		w.stepUnit(t)
	case 3:
		w.store.Apply(facts.PodRemoved{UID: drawUID(t)})
	case 4:
		w.store.Release(drawUID(t))
	case 5:
		w.store.Confirm(drawUID(t))
	case 6:
		slot := cluster.Slot(rapid.IntRange(0, w.store.Slots()-1).Draw(t, "slot"))
		w.store.Reserve([]cluster.Slot{slot}, cluster.ReservationID(rapid.IntRange(0, 2).Draw(t, "by")))
	case 7, 8:
		w.commit(t)
	case 9: // the watch begins anew, and some pods have gone meanwhile
		var list []facts.Pod
		for i := range 12 {
			pod := w.store.Pod(facts.UID(fmt.Sprint("p", i)))
			if pod != nil && pod.Phase != cluster.Finished && rapid.IntRange(0, 4).Draw(t, "listed") > 0 {
				f := pod.Record().Facts
				if pod.Phase == cluster.Assumed {
					f.Node, f.Grant = "", topology.Grant{}
				}
				list = append(list, f)
			}
		}
		w.store.Apply(facts.PodsListed{Pods: list})
	default:
		w.store.Apply(facts.PodUpserted{Pod: w.drawPod(t)})
	}
}

func drawUID(t *rapid.T) facts.UID {
	return facts.UID(fmt.Sprint("p", rapid.IntRange(0, 11).Draw(t, "pod")))
}

func (w *town) drawPod(t *rapid.T) facts.Pod {
	uid := drawUID(t)
	f := facts.Pod{
		UID: uid, Name: string(uid), Namespace: []string{"x", "y", "z"}[int(uid[1])%3], Ours: true, Requirements: oneOf(t, "needs", townNeeds...),
		Created: 100 - int64(uid[len(uid)-1]), Gated: rapid.IntRange(0, 5).Draw(t, "gated") == 0,
		Unit: oneOf(t, "unit", "", "g", "h"), Priority: rapid.Int32Range(0, 3).Draw(t, "priority"), Deadline: rapid.Int64Range(0, 2).Draw(t, "deadline"),
		Deleting: rapid.IntRange(0, 5).Draw(t, "deleting") == 0, Finished: rapid.IntRange(0, 5).Draw(t, "finished") == 0,
		Subgroup: oneOf(t, "subgroup", "", "s"),
	}
	if rapid.Bool().Draw(t, "blue") {
		f.Labels = []facts.Label{{Key: "color", Value: "blue"}}
	}
	if known := w.store.Pod(uid); known != nil && known.Node() != "" && rapid.Bool().Draw(t, "stays") {
		f.Node = known.Node()
	} else if rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
		f.Node = fmt.Sprint("n", rapid.IntRange(0, 4).Draw(t, "node"))
	}
	return f
}

func (w *town) stepUnit(t *rapid.T) {
	name := facts.UnitName{Namespace: oneOf(t, "namespace", "x", "y", "z"), Name: oneOf(t, "unit", "g", "h")}
	if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		delete(w.units, name)
		w.store.Apply(facts.UnitRemoved{Name: name})
		return
	}
	u := &facts.Unit{
		UnitName: name, UID: oneOf[facts.UID](t, "uid", "u1", "u2"), MinMember: rapid.Int32Range(0, 3).Draw(t, "min"),
		Priority: rapid.Int32Range(0, 3).Draw(t, "unit's priority"), Prioritized: rapid.Bool().Draw(t, "prioritized"),
		Scheduled: rapid.Bool().Draw(t, "scheduled"),
		Invalid:   oneOf(t, "invalid", "", "", "", "why"),
	}
	switch rapid.IntRange(0, 2).Draw(t, "disruption") {
	case 1:
		u.Indivisible = true
	case 2:
		u.Divisible = true
	}
	w.units[name] = u
	w.store.Apply(facts.UnitUpserted{Unit: u})
}

// commit tries a Plan for some pods that wait, now and then with victims. One that is rejected leaves the ledger as it was; one that is taken
// leaves no unit short of what it needed.
func (w *town) commit(t *rapid.T) {
	plan := &cluster.Plan{Reclaims: rapid.Bool().Draw(t, "reclaims"), Through: cluster.ReservationID(rapid.IntRange(0, 1).Draw(t, "through"))}
	needs := map[*cluster.Unit]int{}
	for i := range 12 {
		pod := w.store.Pod(facts.UID(fmt.Sprint("p", i)))
		switch {
		case pod == nil:
		case pod.Node() != "":
			if rapid.IntRange(0, 3).Draw(t, "victim") == 0 {
				plan.Victims = append(plan.Victims, pod.UID)
			}
		case rapid.Bool().Draw(t, "placed"):
			slot := cluster.Slot(rapid.IntRange(0, w.store.Slots()-1).Draw(t, "on"))
			if w.store.Node(slot) == nil {
				continue
			}
			grant, _ := w.store.Offer(slot, pod.Class)
			plan.Placements = append(plan.Placements, cluster.Placement{Pod: pod.UID, Node: w.store.Node(slot).Name, Grant: grant})
			if u := pod.Unit; u != nil && needs[u] == 0 {
				needs[u] = u.Need()
			}
		}
	}
	if len(plan.Placements) == 0 {
		return
	}
	before, exceeded := world(w.store), w.store.Exceeded()
	verdict := w.store.Commit(plan, rules.Commits)
	if !verdict.Committed {
		if after := world(w.store); after != before {
			t.Fatalf("rejected (%v), and left something behind; before:\n%s\nafter:\n%s", verdict, before, after)
		}
		return
	}
	for i := range plan.Placements {
		if u := w.store.Pod(plan.Placements[i].Pod).Unit; u != nil {
			needs[u]--
		}
	}
	for u, missing := range needs {
		if missing > 0 {
			t.Fatalf("%s was given %d places less than it needs: %+v", u.UnitName, missing, plan)
		}
	}
	for _, q := range w.store.Exceeded() {
		if !slices.Contains(exceeded, q) {
			t.Fatalf("%s is over its limit since a Plan was taken: %+v", q.Path(), plan)
		}
	}
}

// TestBooksHold drives a ledger through random histories: the books are right after every step, a ledger that was told only how things are in
// the end, in any order, has the same tree, and one that is loaded from a file answers alike.
func TestBooksHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newTown()
		w.store.Waiting().SetMost(rapid.IntRange(0, 3).Draw(t, "most"))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step(t)
			if err := w.store.Verify(); err != nil {
				t.Fatal(err)
			}
		}
		w.retold(t)
		w.reloaded(t)
	})
}

// retold compares the tree with that of a ledger without a history.
func (w *town) retold(t *rapid.T) {
	var events []facts.Event
	for _, name := range townQueues {
		if q := w.queues[name]; q != nil {
			events = append(events, facts.QueueUpserted{Queue: q})
		}
	}
	for _, name := range []string{"x", "y", "z"} {
		if n, ok := w.namespaces[name]; ok {
			events = append(events, facts.NamespaceUpserted{Namespace: n})
		}
	}
	for i := range 12 {
		if pod := w.store.Pod(facts.UID(fmt.Sprint("p", i))); pod != nil {
			if f := pod.Record().Facts; !f.Finished { // of those that had finished nobody tells
				events = append(events, facts.PodUpserted{Pod: f})
			} else { // they hold nothing, but keep their namespace in its queue
				f.Finished, f.Node = false, ""
				events = append(events, facts.PodUpserted{Pod: f})
			}
		}
	}
	fresh := cluster.NewStore()
	for i := range w.store.Slots() {
		if node := w.store.Node(cluster.Slot(i)); node != nil {
			fresh.Apply(facts.NodeUpserted{Node: node})
		}
	}
	for _, event := range rapid.Permutation(events).Draw(t, "order") {
		fresh.Apply(event)
	}
	if err := fresh.Verify(); err != nil {
		t.Fatalf("told anew: %v", err)
	}
	if got, want := script.Queues(fresh), script.Queues(w.store); got != want {
		t.Fatalf("told anew:\n%s\nwith a history:\n%s", got, want)
	}
}

// reloaded compares the ledger with one that is read from its file.
func (w *town) reloaded(t *rapid.T) {
	dump := w.store.Dump()
	dump.Sort()
	file := encode(t, dump)
	read, err := dumpfile.Read(json.NewDecoder(bytes.NewReader(file)))
	if err != nil {
		t.Fatalf("read: %v in\n%s", err, file)
	}
	loaded, err := cluster.Load(read)
	if err != nil {
		t.Fatalf("load: %v of\n%s", err, file)
	}
	if err := loaded.Verify(); err != nil {
		t.Fatalf("loaded: %v", err)
	}
	if w.takesInMore(t, loaded) {
		return
	}
	if got, want := booksOf(loaded), booksOf(w.store); got != want {
		t.Fatalf("loaded:\n%s\nwas:\n%s", got, want)
	}
	again := loaded.Dump()
	again.Sort()
	again.Revision = dump.Revision
	if got := encode(t, again); !bytes.Equal(got, file) {
		t.Fatalf("written again:\n%s\nfirst:\n%s", got, file)
	}
	for _, s := range []*cluster.Store{loaded, w.store} { // what they know that does not show
		s.Apply(facts.UnitsListed{})
	}
	if got, want := booksOf(loaded), booksOf(w.store); got != want {
		t.Fatalf("loaded, and without PodGroups:\n%s\nwas:\n%s", got, want)
	}
}

// takesInMore reports whether the loaded ledger holds fewer pods back. It does not know the terms that no pod carries any more, so that there may be fewer
// classes.
func (w *town) takesInMore(t *rapid.T, loaded *cluster.Store) (more bool) {
	loaded.EachPod(func(pod *cluster.Pod) {
		switch was := w.store.Pod(pod.UID).Class.HeldBack != ""; {
		case was && pod.Class.HeldBack == "":
			more = true
		case !was && pod.Class.HeldBack != "":
			t.Fatalf("%s is held back by the ledger that was loaded", pod.UID)
		}
	})
	return more
}

func encode(t *rapid.T, d *cluster.Dump) []byte {
	var b bytes.Buffer
	w := jsonstream.NewWriter(&b)
	dumpfile.Write(w, d)
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// booksOf renders what does not depend on slots.
func booksOf(s *cluster.Store) string {
	lines := strings.Split(reserved(s), "\n")
	slices.Sort(lines)
	var b strings.Builder
	b.WriteString(script.Queues(s) + script.Units(s) + strings.Join(lines, "\n"))
	for _, q := range s.Exceeded() {
		b.WriteString(q.Path() + " is exceeded\n")
	}
	for kind := range s.Kinds() {
		fmt.Fprintf(&b, "%s %d\n", s.KindName(resource.Kind(kind)), s.Quota().Capacity(resource.Kind(kind)))
	}
	for i := range 12 {
		if pod := s.Pod(facts.UID(fmt.Sprint("p", i))); pod != nil {
			fmt.Fprintf(&b, "%s %s %d on %q %s %v %v\n", pod.UID, pod.Phase, pod.Priority, pod.Node(), pod.Grant(), pod.Schedulable(), pod.Claimed())
		}
	}
	return b.String()
}
