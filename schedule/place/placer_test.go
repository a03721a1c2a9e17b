package place

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// TestPlaceIsExact drives a ledger through random nodes, pods and commits, and compares every decision of the indexed Placer with brute
// force over the whole cluster: every filter asked of every node, every score normalised over the feasible ones.
func TestPlaceIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profile, err := NewProfile(map[string]int64{"MostAllocated": rapid.Int64Range(0, 3).Draw(t, "weight")})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{store: cluster.NewStore(), snapshot: cluster.NewSnapshot()}
		// Fewer indexes than classes: recycling must not change a decision.
		w.placer = NewPlacer(w.snapshot, profile, 7, rapid.IntRange(1, 4).Draw(t, "indexes"))
		for range rapid.IntRange(1, 4).Draw(t, "classes") {
			w.pool = append(w.pool, drawRequirements(t))
		}
		for range rapid.IntRange(10, 150).Draw(t, "steps") {
			w.step(t)
			if err := w.store.Verify(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

type world struct {
	store    *cluster.Store
	snapshot *cluster.Snapshot
	placer   *Placer
	pool     []*cluster.Requirements
	pods     int
}

func (w *world) step(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "op") {
	case 0, 1:
		w.store.Apply(cluster.NodeUpserted{Node: drawNode(t)})
	case 2:
		w.store.Apply(cluster.NodeRemoved{Name: fmt.Sprintf("n%d", rapid.IntRange(0, maxNodes).Draw(t, "gone"))})
	case 3, 4:
		w.store.Apply(cluster.PodRemoved{UID: cluster.UID(fmt.Sprint(rapid.IntRange(0, w.pods).Draw(t, "pod")))})
	default:
		uid := cluster.UID(fmt.Sprint(w.pods))
		w.pods++
		w.store.Apply(cluster.PodUpserted{Pod: cluster.PodFacts{UID: uid, Ours: true, Requirements: rapid.SampledFrom(w.pool).Draw(t, "class")}})
		w.placeAndCompare(t, uid)
	}
}

func (w *world) placeAndCompare(t *rapid.T, uid cluster.UID) {
	store, snapshot, placer := w.store, w.snapshot, w.placer
	snapshot.Advance(store)
	for i := range store.Slots() {
		for kind := range store.Kinds() {
			if s, k := cluster.Slot(i), resource.Kind(kind); snapshot.Free(s, k) != store.Free(s, k) {
				t.Fatalf("slot %d: the snapshot has %d of %s free, the ledger %d", s, snapshot.Free(s, k), store.KindName(k), store.Free(s, k))
			}
		}
	}
	class := store.Pod(uid).Class
	want := bruteForce(placer, class)
	got, ok := placer.Place(class)
	if got.Slot != want || ok != (want != cluster.NoSlot) {
		t.Fatalf("placed on slot %d (%v), brute force says %d", got.Slot, ok, want)
	}
	if !ok {
		checkExplained(t, placer, class)
		return
	}
	if rapid.IntRange(0, 3).Draw(t, "assume only") == 0 {
		snapshot.Assume(got.Slot, class, got.Grant) // the next Advance must undo it
		if want, got := bruteForce(placer, class), placer.index(class); want != first(got, placer) {
			t.Fatalf("after assuming, the index says slot %d, brute force %d", first(got, placer), want)
		}
		return
	}
	plan := cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: snapshot.Node(got.Slot).Name, Grant: got.Grant}}}
	if verdict := store.Commit(&plan, Commits); !verdict.Committed {
		t.Fatalf("the ledger refused a decision made on its newest state: %v", verdict)
	}
	for _, a := range class.Amounts {
		if store.Free(got.Slot, a.Kind) < 0 {
			t.Fatalf("commit left %d of %s on the node", store.Free(got.Slot, a.Kind), store.KindName(a.Kind))
		}
	}
}

func first(x *index, p *Placer) cluster.Slot {
	slot, _ := x.best(p)
	return slot
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

// bruteForce is the definition: of all nodes that pass all filters, the greatest total score, then the greatest tie hash.
func bruteForce(p *Placer, c *cluster.Class) cluster.Slot {
	s := &p.snapshot.State
	var feasible []cluster.Slot
	var greatest rawValues
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		if s.Node(slot) == nil || refusal(s, slot, c) >= 0 {
			continue
		}
		feasible = append(feasible, slot)
		for k, score := range NormalizedScores {
			greatest[k] = max(greatest[k], score.Raw(s.Node(slot), c))
		}
	}
	best, bestScore, bestTie := cluster.NoSlot, int64(-1), uint32(0)
	for _, slot := range feasible {
		score := p.profile.localScore(s, slot, c)
		for k, n := range NormalizedScores {
			value := int64(0)
			if greatest[k] > 0 {
				value = MaxScore * n.Raw(s.Node(slot), c) / greatest[k]
			}
			if n.Reverse {
				value = MaxScore - value
			}
			score += value * p.profile.normalized[k]
		}
		tie := tieHash(p.seed, s.Node(slot).Name)
		if score > bestScore || score == bestScore && tie > bestTie {
			best, bestScore, bestTie = slot, score, tie
		}
	}
	return best
}

const maxNodes = 30

var zones = []string{"a", "b", "c"}

func drawNode(t *rapid.T) *cluster.Node {
	n := &cluster.Node{
		Name:          fmt.Sprintf("n%d", rapid.IntRange(0, maxNodes).Draw(t, "node")),
		Labels:        map[string]string{"zone": rapid.SampledFrom(zones).Draw(t, "zone")},
		Unschedulable: rapid.IntRange(0, 9).Draw(t, "cordon") == 0,
		Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 1000 * rapid.Int64Range(0, 8).Draw(t, "cpu")},
			{Name: resource.NameMemory, Amount: 1 << 30 * rapid.Int64Range(0, 16).Draw(t, "memory")},
			{Name: resource.NamePods, Amount: rapid.Int64Range(0, 6).Draw(t, "pods")},
		},
	}
	if gpus := rapid.IntRange(0, 3).Draw(t, "gpus"); gpus > 0 {
		n.GPU = topology.Shape{GPUs: gpus, Model: "T4", Shareable: rapid.Bool().Draw(t, "share")}
	}
	for range rapid.IntRange(0, 2).Draw(t, "taints") {
		n.Taints = append(n.Taints, cluster.Taint{
			Key:    rapid.SampledFrom([]string{"x", "y"}).Draw(t, "key"),
			Effect: cluster.TaintEffect(rapid.IntRange(1, 3).Draw(t, "effect")),
		})
	}
	return n
}

func drawRequirements(t *rapid.T) *cluster.Requirements {
	cpu := 500 * rapid.Int64Range(0, 5).Draw(t, "cpu")
	r := &cluster.Requirements{
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
	if rapid.IntRange(0, 3).Draw(t, "select") == 0 {
		r.NodeSelector = []cluster.Label{{Key: "zone", Value: rapid.SampledFrom(zones).Draw(t, "zone")}}
	}
	if rapid.Bool().Draw(t, "prefer") {
		r.Preferred = []cluster.WeightedTerm{{Weight: rapid.Int32Range(1, 100).Draw(t, "weight"), Term: cluster.Term{
			Expressions: []cluster.Requirement{{Key: "zone", Operator: cluster.In, Values: zones[:rapid.IntRange(1, 2).Draw(t, "zones")]}},
		}}}
	}
	if rapid.Bool().Draw(t, "tolerate") {
		r.Tolerations = []cluster.Toleration{{Key: rapid.SampledFrom([]string{"x", "y", TaintUnschedulable, ""}).Draw(t, "key"), Exists: true}}
	}
	if rapid.IntRange(0, 4).Draw(t, "port") == 0 {
		r.Ports = []cluster.HostPort{{Protocol: "TCP", IP: rapid.SampledFrom([]string{cluster.AnyIP, "10.0.0.1"}).Draw(t, "ip"), Port: 80}}
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
