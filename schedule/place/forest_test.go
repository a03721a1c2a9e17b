package place

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/topology"
)

// TestForestIsExact fills and empties a ledger whose nodes are many enough for deep trees, and compares the forest's decisions with brute
// force: on machines of few shapes (so that plateaus of equal nodes are wide) or of many, with all scores that have a bound.
func TestForestIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profile, err := NewProfile(map[string]int64{
			"LeastAllocated": rapid.Int64Range(0, 3).Draw(t, "least"), "MostAllocated": rapid.Int64Range(0, 3).Draw(t, "most"),
			"BalancedAllocation": rapid.Int64Range(0, 3).Draw(t, "balanced"),
		})
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		jitter := rapid.SampledFrom([]int64{1, 500}).Draw(t, "jitter")
		store, snapshot := cluster.NewStore(), cluster.NewSnapshot()
		placer := NewPlacer(snapshot, profile, 7, 1)
		placer.loners = 0
		for i := range rapid.IntRange(1, 300).Draw(t, "nodes") {
			store.Apply(cluster.NodeUpserted{Node: forestNode(random, i, jitter)})
		}
		for i := range rapid.IntRange(10, 400).Draw(t, "pods") {
			uid := cluster.UID(fmt.Sprint(i))
			store.Apply(cluster.PodUpserted{Pod: cluster.PodFacts{UID: uid, Ours: true, Requirements: forestRequirements(random)}})
			switch random.IntN(8) {
			case 0:
				store.Apply(cluster.PodRemoved{UID: cluster.UID(fmt.Sprint(random.IntN(i + 1)))})
			case 1:
				store.Apply(cluster.NodeUpserted{Node: forestNode(random, random.IntN(300), jitter)})
			case 2:
				store.Apply(cluster.NodeRemoved{Name: fmt.Sprint("n", random.IntN(300))})
			}
			pod := store.Pod(uid)
			if pod == nil {
				continue
			}
			snapshot.Advance(store)
			if !placer.forest.serves(placer, pod.Class) {
				t.Fatalf("the forest does not serve %+v", pod.Class.Requirements)
			}
			choice, ok := placer.Place(pod.Class)
			if want := placer.Best(pod.Class); choice.Slot != want {
				t.Fatalf("pod %d: the forest says slot %d, brute force %d", i, choice.Slot, want)
			}
			if ok {
				store.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: snapshot.Node(choice.Slot).Name}}}, Commits)
			}
		}
	})
}

func forestNode(random *rand.Rand, i int, jitter int64) *cluster.Node {
	n := &cluster.Node{
		Name: fmt.Sprint("n", i), Labels: map[string]string{"zone": zones[random.IntN(2)]},
		Allocatable: quantities("cpu", int(8000*(1+random.Int64N(3))+random.Int64N(jitter)), "memory", int((16<<30)*(1+random.Int64N(2))+random.Int64N(jitter)<<20), "pods", 6),
	}
	switch random.IntN(12) {
	case 0:
		n.Taints = []cluster.Taint{{Key: "x", Effect: cluster.PreferNoSchedule}}
	case 1:
		n.GPU = topology.Shape{GPUs: 1 + random.IntN(4)}
	case 2:
		n.Allocatable = n.Allocatable[random.IntN(2):] // no cpu, perhaps
	}
	return n
}

func forestRequirements(random *rand.Rand) *cluster.Requirements {
	cpu, memory := 100*random.Int64N(40), random.Int64N(6)<<30
	r := &cluster.Requirements{Requests: quantities("cpu", int(cpu), "memory", int(memory)), ScoreCPU: max(cpu, 100), ScoreMemory: max(memory, 200<<20)}
	if random.IntN(3) == 0 {
		r.NodeSelector = []cluster.Label{{Key: "zone", Value: zones[random.IntN(3)]}}
	}
	if random.IntN(3) == 0 {
		r.Preferred = []cluster.WeightedTerm{{Weight: 1 + random.Int32N(50), Term: cluster.Term{
			Expressions: []cluster.Requirement{{Key: "zone", Operator: cluster.In, Values: zones[:1]}},
		}}}
	}
	return r
}
