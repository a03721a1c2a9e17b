package place

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestPlaceIsExact drives a ledger through random nodes, pods and commits, and compares every decision of the indexed Placer with brute
// force over the whole cluster: every filter asked of every node, every score normalised over the feasible ones. Two Placers with profiles of their own
// take turns on one snapshot, so that each has to see what the other has assumed.
func TestPlaceIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{store: cluster.NewStore(), snapshot: cluster.NewSnapshot()}
		w.placer = w.drawPlacer(t)
		w.others = []*Placer{w.drawPlacer(t)}
		for range rapid.IntRange(1, 4).Draw(t, "classes") {
			r := drawRequirements(t)
			drawConstraints(t, r)
			w.pool = append(w.pool, r)
		}
		w.store = cluster.NewStore(facts.SpreadDefault{TopologyKey: facts.HostnameKey, MaxSkew: 1}, facts.SpreadDefault{TopologyKey: "zone", MaxSkew: 2})
		for range rapid.IntRange(10, 150).Draw(t, "steps") {
			w.step(t)
			if err := w.store.Verify(); err != nil {
				t.Fatal(err)
			}
			if err := w.snapshot.Verify(); err != nil {
				t.Fatalf("snapshot: %v", err)
			}
		}
	})
}

type world struct {
	store    *cluster.Store
	snapshot *cluster.Snapshot
	placer   *Placer
	others   []*Placer // decide too
	pool     []*facts.Requirements
	pods     int
	facts    []*facts.Pod
}

// drawPlacer makes a Placer with a profile of its own. It has fewer indexes than there are classes: recycling must not change a decision.
func (w *world) drawPlacer(t *rapid.T) *Placer {
	profile, err := rules.NewProfile(map[string]int64{
		"MostAllocated": rapid.Int64Range(0, 3).Draw(t, "most"), "LeastAllocated": rapid.Int64Range(0, 1).Draw(t, "least"),
		"LoadAware": rapid.Int64Range(0, 2).Draw(t, "load"),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlacer(w.snapshot, profile, 7, rapid.IntRange(1, 4).Draw(t, "indexes"))
	p.SetMaxCoarseDomains(rapid.SampledFrom([]int{0, 2, 64}).Draw(t, "coarse"))
	p.SetMaxHolders(rapid.SampledFrom([]int{0, 2, 64}).Draw(t, "shared"))
	p.SetUsesBeforeIndex(rapid.SampledFrom([]int{0, 1000, 1000}).Draw(t, "uses before an index"))
	return p
}

func (w *world) step(t *rapid.T) {
	switch rapid.IntRange(0, 15).Draw(t, "op") {
	case 10:
		w.store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: rapid.SampledFrom(spaces).Draw(t, "namespace"), Labels: drawLabels(t)}})
	case 11:
		w.store.Apply(facts.WorkloadUpserted{Workload: &facts.Workload{
			Kind: rapid.SampledFrom([]facts.WorkloadKind{facts.Service, facts.ReplicaSet}).Draw(t, "kind"), Name: "w",
			Namespace: rapid.SampledFrom(spaces).Draw(t, "namespace"), Pods: drawSelector(t),
		}})
	case 12: // a pod that is there changes: it gets other labels, is bound by somebody, or is being deleted
		if len(w.facts) == 0 {
			return
		}
		pod := w.facts[rapid.IntRange(0, len(w.facts)-1).Draw(t, "pod")]
		if rapid.Bool().Draw(t, "relabel") {
			pod.Labels = drawLabels(t)
		}
		pod.Deleting = rapid.Bool().Draw(t, "deleting")
		pod.Started = rapid.Int64Range(0, 3).Draw(t, "started")
		if known := w.store.Pod(pod.UID); known != nil {
			pod.Node = known.Node()
		}
		w.store.Apply(facts.PodUpserted{Pod: *pod})
	case 0, 1:
		w.store.Apply(facts.NodeUpserted{Node: drawNode(t)})
	case 13, 14, 15:
		name := fmt.Sprintf("n%d", rapid.IntRange(0, maxNodes).Draw(t, "reporter"))
		if slot := w.store.Slot(name); slot != cluster.NoSlot && w.store.Report(slot) != nil && rapid.IntRange(0, 2).Draw(t, "anew") > 0 {
			again := *w.store.Report(slot) // nothing but the use has changed
			again.Usage = drawUsage(t)
			w.store.Apply(facts.NodeReported{Node: name, Report: &again})
			return
		}
		if report := drawReport(t); report != nil {
			for i := range rapid.IntRange(0, 3).Draw(t, "held") {
				report.Held = append(report.Held, facts.HeldNUMA{UID: facts.UID(fmt.Sprint(2 * i)), Grant: numaOf(uint16(i+1), uint16(i))})
			}
			w.store.Apply(facts.NodeReported{Node: name, Report: report})
		} else {
			w.store.Apply(facts.NodeReportRemoved{Node: name})
		}
	case 2:
		w.store.Apply(facts.NodeRemoved{Name: fmt.Sprintf("n%d", rapid.IntRange(0, maxNodes).Draw(t, "gone"))})
	case 3, 4:
		w.store.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(rapid.IntRange(0, w.pods).Draw(t, "pod")))})
	default:
		uid := facts.UID(fmt.Sprint(w.pods))
		w.pods++
		seen := &facts.Pod{
			UID: uid, Ours: true, Requirements: rapid.SampledFrom(w.pool).Draw(t, "class"),
			Namespace: rapid.SampledFrom(spaces).Draw(t, "namespace"), Labels: drawLabels(t),
		}
		if rapid.Bool().Draw(t, "owned") {
			seen.Owner = facts.Owner{Kind: facts.ReplicaSet, Name: "w"}
		}
		w.facts = append(w.facts, seen)
		w.store.Apply(facts.PodUpserted{Pod: *seen})
		w.placeAndCompare(t, uid)
	}
}

func (w *world) placeAndCompare(t *rapid.T, uid facts.UID) {
	store, snapshot, placer := w.store, w.snapshot, w.placer
	if len(w.others) > 0 {
		placer = rapid.SampledFrom(append(w.others, placer)).Draw(t, "placer")
	}
	snapshot.Advance(store)
	for i := range store.Slots() {
		for kind := range store.Kinds() {
			if s, k := cluster.Slot(i), resource.Kind(kind); snapshot.Free(s, k) != store.Free(s, k) {
				t.Fatalf("slot %d: the snapshot has %d of %s free, the ledger %d", s, snapshot.Free(s, k), store.KindName(k), store.Free(s, k))
			}
		}
	}
	class := store.Pod(uid).Class
	if class.Absent != "" { // no node has it: it is held, and never placed
		return
	}
	want := placer.Best(class)
	got, ok := placer.Place(class)
	if got.Slot != want || ok != (want != cluster.NoSlot) {
		t.Fatalf("placed on slot %d (%v), brute force says %d", got.Slot, ok, want)
	}
	if !ok {
		checkExplained(t, placer, class)
		return
	}
	if rapid.IntRange(0, 3).Draw(t, "assume only") == 0 {
		snapshot.Assume(got.Slot, store.Pod(uid), got.Grant) // the next Advance must undo it
		want := placer.Best(class)
		if got, _ := placer.Place(class); got.Slot != want {
			t.Fatalf("after assuming, the index says slot %d, brute force %d", got.Slot, want)
		}
		return
	}
	plan := cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: snapshot.Node(got.Slot).Name, Grant: got.Grant}}}
	if verdict := store.Commit(&plan, rules.Commits); !verdict.Committed {
		t.Fatalf("the ledger refused a decision made on its newest state: %v", verdict)
	}
	for _, a := range class.Amounts {
		if store.Free(got.Slot, a.Kind) < 0 {
			t.Fatalf("commit left %d of %s on the node", store.Free(got.Slot, a.Kind), store.KindName(a.Kind))
		}
	}
}

func checkExplained(t *rapid.T, placer *Placer, class *cluster.Class) {
	e := placer.Explain(class)
	nodes, explained := 0, 0
	for i := range placer.snapshot.Slots() {
		if placer.snapshot.Node(cluster.Slot(i)) != nil {
			nodes++
		}
	}
	for _, r := range e.Reasons {
		explained += r.Nodes
	}
	if e.Nodes != nodes || explained < nodes {
		t.Fatalf("%d nodes, but the explanation counts %d and gives %d reasons: %v", nodes, e.Nodes, explained, e)
	}
}

const maxNodes = 30

var zones = []string{"a", "b", "c"}

func drawNode(t *rapid.T) *facts.Node {
	n := &facts.Node{
		Name:          fmt.Sprintf("n%d", rapid.IntRange(0, maxNodes).Draw(t, "node")),
		Labels:        drawNodeLabels(t),
		Unschedulable: rapid.IntRange(0, 9).Draw(t, "cordon") == 0,
		Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 1000 * rapid.Int64Range(0, 8).Draw(t, "cpu")},
			{Name: resource.NameMemory, Amount: 1 << 30 * rapid.Int64Range(0, 16).Draw(t, "memory")},
			{Name: resource.NamePods, Amount: rapid.Int64Range(0, 6).Draw(t, "pods")},
		},
	}
	for _, name := range []string{"i", "j"} {
		if rapid.Bool().Draw(t, "image") {
			n.Images = append(n.Images, facts.Image{Name: name, Size: rapid.Int64Range(0, 2).Draw(t, "size") << 29})
		}
	}
	if gpus := rapid.IntRange(0, 3).Draw(t, "gpus"); gpus > 0 {
		n.GPU = topology.Shape{GPUs: gpus, Model: "T4", Shareable: rapid.Bool().Draw(t, "share")}
	}
	for range rapid.IntRange(0, 2).Draw(t, "taints") {
		n.Taints = append(n.Taints, facts.Taint{
			Key:    rapid.SampledFrom([]string{"x", "y"}).Draw(t, "key"),
			Effect: facts.TaintEffect(rapid.IntRange(1, 3).Draw(t, "effect")),
		})
	}
	return n
}

func drawRequirements(t *rapid.T) *facts.Requirements {
	cpu := 500 * rapid.Int64Range(0, 5).Draw(t, "cpu")
	r := &facts.Requirements{
		Requests: []resource.Quantity{
			{Name: resource.NameCPU, Amount: cpu},
			{Name: resource.NameMemory, Amount: 1 << 29 * rapid.Int64Range(0, 4).Draw(t, "memory")},
		},
		ScoreCPU: max(cpu, 100), ScoreMemory: 200 << 20,
	}
	switch rapid.IntRange(0, 5).Draw(t, "gpu") {
	case 0:
		r.GPU.Milli = int16(rapid.IntRange(1, 999).Draw(t, "milli"))
	case 1:
		r.GPU.Whole = int8(rapid.IntRange(1, 2).Draw(t, "whole"))
	}
	drawNUMANodes(t, r)
	drawDevices(t, &r.GPU)
	if rapid.IntRange(0, 3).Draw(t, "select") == 0 {
		r.NodeSelector = []facts.Label{{Key: "zone", Value: rapid.SampledFrom(zones).Draw(t, "zone")}}
	}
	if rapid.Bool().Draw(t, "prefer") {
		r.Preferred = []facts.WeightedTerm{{Weight: rapid.Int32Range(1, 100).Draw(t, "weight"), Term: facts.Term{
			Expressions: []facts.Requirement{{Key: "zone", Operator: facts.In, Values: zones[:rapid.IntRange(1, 2).Draw(t, "zones")]}},
		}}}
	}
	if rapid.Bool().Draw(t, "tolerate") {
		r.Tolerations = []facts.Toleration{{Key: rapid.SampledFrom([]string{"x", "y", rules.TaintUnschedulable, ""}).Draw(t, "key"), Exists: true}}
	}
	if rapid.IntRange(0, 4).Draw(t, "port") == 0 {
		r.Ports = []facts.HostPort{{Protocol: "TCP", IP: rapid.SampledFrom([]string{facts.AnyIP, "10.0.0.1"}).Draw(t, "ip"), Port: 80}}
	}
	return r
}

// quantities pairs names and amounts.
func quantities(pairs ...any) []resource.Quantity {
	var list []resource.Quantity
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, resource.Quantity{Name: pairs[i].(string), Amount: int64(pairs[i+1].(int))})
	}
	return list
}

var (
	spaces = []string{"x", "y"}
	keys   = []string{"zone", "rack", facts.HostnameKey}
)

func drawNodeLabels(t *rapid.T) map[string]string {
	labels := map[string]string{
		"zone": rapid.SampledFrom(zones).Draw(t, "zone"), "rack": fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "rack")),
		facts.HostnameKey: fmt.Sprint(rapid.IntRange(0, maxNodes).Draw(t, "host")), // some stand twice
	}
	for _, key := range keys {
		if rapid.IntRange(0, 9).Draw(t, "missing") == 0 {
			delete(labels, key)
		}
	}
	return labels
}

func drawLabels(t *rapid.T) []facts.Label {
	var labels []facts.Label
	for _, key := range []string{"app", "tier"} {
		if value := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, key); value != "" {
			labels = append(labels, facts.Label{Key: key, Value: value})
		}
	}
	return labels
}

func drawSelector(t *rapid.T) (s facts.LabelSelector) {
	s.Nothing = rapid.IntRange(0, 19).Draw(t, "nothing") == 0
	for range rapid.IntRange(0, 2).Draw(t, "expressions") {
		s.Expressions = append(s.Expressions, facts.Requirement{
			Key:      rapid.SampledFrom([]string{"app", "tier"}).Draw(t, "key"),
			Operator: rapid.SampledFrom([]facts.Operator{facts.In, facts.NotIn, facts.Exists}).Draw(t, "operator"),
			Values:   []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "value")},
		})
	}
	return s
}

func drawPods(t *rapid.T) facts.PodSelector {
	pods := facts.PodSelector{Namespaces: spaces[:rapid.IntRange(0, 2).Draw(t, "namespaces")], Labels: drawSelector(t)}
	if rapid.IntRange(0, 3).Draw(t, "by label") == 0 {
		s := drawSelector(t)
		pods.NamespaceSelector = &s
	}
	return pods
}

// drawConstraints adds constraints between pods.
func drawConstraints(t *rapid.T, r *facts.Requirements) {
	some := func(what string) int { return max(rapid.IntRange(-2, 2).Draw(t, what), 0) }
	key := rapid.SampledFrom(keys)
	for range some("spread") {
		pods := drawPods(t)
		pods.NamespaceSelector = nil
		r.Spread = append(r.Spread, facts.SpreadConstraint{
			TopologyKey: key.Draw(t, "key"), MaxSkew: rapid.Int32Range(1, 3).Draw(t, "skew"), Hard: rapid.Bool().Draw(t, "hard"),
			MinDomains: rapid.Int32Range(1, 3).Draw(t, "domains"), Pods: pods,
			HonorAffinity: rapid.Bool().Draw(t, "affinity"), HonorTaints: rapid.Bool().Draw(t, "taints"),
		})
	}
	term := func() facts.AffinityTerm {
		return facts.AffinityTerm{TopologyKey: key.Draw(t, "key"), Pods: drawPods(t)}
	}
	for range some("near") {
		r.Affinity = append(r.Affinity, term())
	}
	for range some("apart") {
		r.AntiAffinity = append(r.AntiAffinity, term())
	}
	for range some("drawn") {
		r.PreferredPods = append(r.PreferredPods, facts.WeightedAffinityTerm{Weight: rapid.Int32Range(-100, 100).Draw(t, "weight"), AffinityTerm: term()})
	}
	for range some("images") {
		r.Images = append(r.Images, rapid.SampledFrom([]string{"i", "j"}).Draw(t, "image"))
	}
}
