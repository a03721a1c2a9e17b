package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
)

type revWorld struct {
	store    *cluster.Store
	snapshot *cluster.Snapshot
	placer   *place.Placer
	next     int
}

func newRevWorld(nodes, indexes int, image string, every int, imageSize int64) *revWorld {
	sc := Scenario{Nodes: nodes, Classes: 1, Case: Basic, Seed: 42}
	store := cluster.NewStore()
	random := rand.New(rand.NewPCG(1, 2))
	for i, n := range sc.GenerateNodes() {
		n.Tainted, n.Shunned = false, false
		cn := n.ClusterNode()
		cn.Labels["instance-id"] = fmt.Sprint("i-", i)
		if image != "" && i%every == 0 {
			cn.Images = []facts.Image{{Name: image, Size: imageSize}}
		}
		store.Apply(facts.NodeUpserted{Node: cn})
		for j := range 3 {
			r := &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 1000 * (1 + random.Int64N(8))}, {Name: "memory", Amount: (1 + random.Int64N(32)) << 30}}}
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprintf("f%d-%d", i, j)), Namespace: "x", Name: "f", Node: n.Name, Requirements: r}})
		}
	}
	profile, err := rules.NewProfile(nil)
	if err != nil {
		panic(err)
	}
	snapshot := cluster.NewSnapshot()
	snapshot.Advance(store)
	return &revWorld{store: store, snapshot: snapshot, placer: place.NewPlacer(snapshot, profile, 1, indexes)}
}

func (w *revWorld) placeOne(r *facts.Requirements) bool {
	w.next++
	uid := facts.UID(fmt.Sprint("p", w.next))
	w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: true, Created: 1, Requirements: r}})
	w.snapshot.Advance(w.store)
	choice, ok := w.placer.Place(w.store.Pod(uid).Class)
	if !ok {
		w.store.Apply(facts.PodRemoved{UID: uid})
		return false
	}
	plan := cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: w.snapshot.Node(choice.Slot).Name, Grant: choice.Grant}}}
	return w.store.Commit(&plan, rules.Commits).Committed
}

func (w *revWorld) rate(t *testing.T, what string, classes []*facts.Requirements, n int) {
	runtime.GC()
	for i := range len(classes) {
		if i < 300 {
			w.placeOne(classes[i])
		}
	}
	began := processTime()
	for i := range n {
		w.placeOne(classes[i%len(classes)])
	}
	per := (processTime() - began) / (1 * 1)
	t.Logf("%-100s %8.0f placements per CPU-second", what, float64(n)/per.Seconds())
}

func revClasses(n int, distinctSizes bool, edit func(i int, r *facts.Requirements)) []*facts.Requirements {
	var out []*facts.Requirements
	for i := range n {
		cpu := int64(1000)
		if distinctSizes {
			cpu += int64(i)
		}
		r := &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: cpu}, {Name: "memory", Amount: 1 << 30}}, ScoreCPU: cpu, ScoreMemory: 1 << 30}
		if edit != nil {
			edit(i, r)
		}
		out = append(out, r)
	}
	return out
}

func TestRevRates(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	const nodes = 20000
	tolerates := func(i int, r *facts.Requirements) {
		r.Tolerations = []facts.Toleration{{Key: fmt.Sprint("team-", i), Exists: true}}
	}
	w := newRevWorld(nodes, 256, "", 1, 0)
	w.rate(t, "A: 1000 workloads of ONE size (default maxClassIndexes=256)", revClasses(1000, false, tolerates), 20000)
	w.rate(t, "B: 200 distinct sizes (256)", revClasses(200, true, nil), 1000)
	w.rate(t, "C: 1000 distinct sizes in turn (256, the default)", revClasses(1000, true, nil), 200)
	w = newRevWorld(nodes, 4000, "", 1, 0)
	w.rate(t, "D: 300 distinct sizes in turn, maxIndexes=4*classes as bench does", revClasses(300, true, nil), 600)

	w = newRevWorld(nodes, 256, "", 1, 0)
	// one pod of one tenant that selects by a label with as many values as nodes
	w.placeOne(&facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 1}}, NodeSelector: []facts.Label{{Key: "instance-id", Value: "i-7"}}})
	w.rate(t, "E: as A, after ONE pod with nodeSelector instance-id (a label unique to each node)", revClasses(1000, false, tolerates), 100)

	w = newRevWorld(nodes, 256, "", 1, 0)
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 1}}}
	for i := range 16 {
		r.NodeSelector = append(r.NodeSelector, facts.Label{Key: fmt.Sprint("evil", i), Value: "x"})
	}
	w.placeOne(r)
	pools := func(i int, r *facts.Requirements) {
		tolerates(i, r)
		r.NodeSelector = []facts.Label{{Key: LabelPool, Value: fmt.Sprint("pool-", i%4)}}
	}
	w.rate(t, "F: 1000 workloads of one size with nodeSelector pool, after ONE pod with 16 made-up nodeSelector keys", revClasses(1000, false, pools), 100)

	w = newRevWorld(nodes, 256, "base", 20, 600<<20)
	images := func(i int, r *facts.Requirements) {
		tolerates(i, r)
		r.Images = []string{"base"}
	}
	w.rate(t, "G: as A, each with a 600 MiB image that 5 % of the nodes have", revClasses(1000, false, images), 100)
	w.rate(t, "H: 200 such workloads", revClasses(200, false, images), 500)
}
