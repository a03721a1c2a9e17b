package place

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestRankingIsExact fills and empties a ledger of some hundred nodes, with classes that share sizes but select differently and are softly
// spread with their like, and compares the decisions of the shared rankings, of searches and of scans with brute force.
func TestRankingIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profile, err := rules.NewProfile(map[string]int64{
			"LeastAllocated": rapid.Int64Range(0, 3).Draw(t, "least"), "MostAllocated": rapid.Int64Range(0, 3).Draw(t, "most"),
			"RequestedToCapacityRatio": rapid.SampledFrom([]int64{0, 0, 0, 2}).Draw(t, "ratio"),
		})
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		store := cluster.NewStore(facts.SpreadDefault{TopologyKey: facts.HostnameKey, MaxSkew: 3}, facts.SpreadDefault{TopologyKey: "zone", MaxSkew: 2})
		for i := range 3 {
			store.Apply(facts.WorkloadUpserted{Workload: &facts.Workload{
				Kind: facts.ReplicaSet, Name: fmt.Sprint(i), Pods: facts.LabelSelector{Expressions: []facts.Requirement{
					{Key: "app", Operator: facts.In, Values: []string{fmt.Sprint(i)}},
				}},
			}})
		}
		snapshot := cluster.NewSnapshot()
		placer := NewPlacer(snapshot, profile, 7, rapid.IntRange(1, 9).Draw(t, "rankings"))
		placer.SetMaxNodeClasses(rapid.SampledFrom([]int{12, 512}).Draw(t, "node classes"))
		placer.SetMaxHolders(rapid.SampledFrom([]int{3, 1000}).Draw(t, "shared"))
		placer.SetUsesBeforeIndex(rapid.SampledFrom([]int{0, 1000}).Draw(t, "uses before an index"))
		for i := range rapid.IntRange(1, 200).Draw(t, "nodes") {
			store.Apply(facts.NodeUpserted{Node: rankedNode(random, i)})
		}
		for i := range rapid.IntRange(10, 300).Draw(t, "pods") {
			uid := facts.UID(fmt.Sprint(i))
			app := fmt.Sprint(random.IntN(5)) // of some nobody is the owner
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: uid, Ours: true, Requirements: rankedRequirements(random), Labels: []facts.Label{{Key: "app", Value: app}},
				Owner: facts.Owner{Kind: facts.ReplicaSet, Name: app},
			}})
			switch random.IntN(8) {
			case 0:
				store.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(random.IntN(i + 1)))})
			case 1:
				store.Apply(facts.NodeUpserted{Node: rankedNode(random, random.IntN(200))})
			case 2:
				store.Apply(facts.NodeRemoved{Name: fmt.Sprint("n", random.IntN(200))})
			}
			if store.Pod(uid) != nil {
				placeRanked(t, store, placer, uid)
			}
		}
	})
}

func placeRanked(t *rapid.T, store *cluster.Store, placer *Placer, uid facts.UID) {
	class := store.Pod(uid).Class
	placer.snapshot.Advance(store)
	if err := placer.index.Verify(); err != nil {
		t.Fatal(err)
	}
	choice, ok := placer.Place(class)
	if want := placer.Best(class); choice.Slot != want {
		t.Fatalf("pod %s: the ranking says slot %d, brute force %d", uid, choice.Slot, want)
	}
	if ok {
		placement := cluster.Placement{Pod: uid, Node: placer.snapshot.Node(choice.Slot).Name, Grant: choice.Grant}
		if v := store.Commit(&cluster.Plan{Placements: []cluster.Placement{placement}}, rules.Commits); !v.Committed {
			t.Fatalf("pod %s: %v", uid, v)
		}
	}
}

func rankedNode(random *rand.Rand, i int) *facts.Node {
	n := &facts.Node{
		Name: fmt.Sprint("n", i), Labels: map[string]string{"zone": zones[random.IntN(2)], "disk": fmt.Sprint(random.IntN(3)), facts.HostnameKey: fmt.Sprint(i)},
		Allocatable: quantities("cpu", int(8000*(1+random.Int64N(3))), "memory", int((16<<30)*(1+random.Int64N(2))), "pods", 6),
	}
	if random.IntN(3) == 0 { // a label that tells every node apart, and keys that few have
		n.Labels["instance"], n.Labels[fmt.Sprint("key", random.IntN(6))] = fmt.Sprint(i), "x"
	}
	for image := range 3 {
		if random.IntN(4) == 0 {
			n.Images = append(n.Images, facts.Image{Name: fmt.Sprint("image", image), Size: (1 + random.Int64N(2000)) << 20})
		}
	}
	switch random.IntN(12) {
	case 0:
		n.Taints = []facts.Taint{{Key: "x", Effect: facts.PreferNoSchedule}}
	case 1:
		n.GPU = topology.Shape{GPUs: 1 + random.IntN(4), Shareable: true}
	case 2:
		n.Allocatable = n.Allocatable[random.IntN(2):] // no cpu, perhaps
	case 3:
		n.Unschedulable = true
	case 4:
		delete(n.Labels, keys[random.IntN(len(keys))])
	}
	return n
}

func rankedRequirements(random *rand.Rand) *facts.Requirements {
	cpu, memory := 1000*random.Int64N(4), random.Int64N(3)<<30
	r := &facts.Requirements{Requests: quantities("cpu", int(cpu), "memory", int(memory)), ScoreCPU: max(cpu, 100), ScoreMemory: max(memory, 200<<20)}
	if random.IntN(3) == 0 {
		r.NodeSelector = []facts.Label{{Key: "zone", Value: zones[random.IntN(3)]}}
	}
	if random.IntN(3) == 0 {
		r.Preferred = []facts.WeightedTerm{{Weight: 1 + random.Int32N(50), Term: facts.Term{
			Expressions: []facts.Requirement{{Key: "disk", Operator: facts.In, Values: []string{fmt.Sprint(random.IntN(3))}}},
		}}}
	}
	for image := range 3 {
		if random.IntN(4) == 0 {
			r.Images = append(r.Images, fmt.Sprint("image", image))
		}
	}
	host := fmt.Sprint(random.IntN(200))
	switch random.IntN(16) {
	case 0:
		r.GPU.Milli = 300
	case 1: // as the pod of a DaemonSet
		r.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{"n" + host}}}}}
	case 2:
		r.NodeSelector = append(r.NodeSelector, facts.Label{Key: facts.HostnameKey, Value: host})
	case 3:
		r.Required = []facts.Term{
			{Expressions: []facts.Requirement{{Key: facts.HostnameKey, Operator: facts.In, Values: []string{host, "7", "9"}}}},
			{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{"n" + host, "n3"}}}},
		}
	case 4: // odd: a label of one node, made-up keys
		r.NodeSelector = append(r.NodeSelector, facts.Label{Key: "instance", Value: host})
	case 5:
		r.NodeSelector = append(r.NodeSelector, facts.Label{Key: fmt.Sprint("key", random.IntN(9)), Value: "x"})
	case 6:
		r.Required = []facts.Term{{Expressions: []facts.Requirement{{Key: fmt.Sprint("key", random.IntN(9)), Operator: facts.DoesNotExist}}}}
	case 7:
		r.Required = []facts.Term{{Expressions: []facts.Requirement{{Key: "instance", Operator: facts.Exists}}}}
	case 8:
		r.AntiAffinity = []facts.AffinityTerm{{TopologyKey: facts.HostnameKey, Pods: podsOf(random)}}
	case 9:
		r.Spread = []facts.SpreadConstraint{{TopologyKey: "zone", MaxSkew: 1, Hard: true, Pods: podsOf(random)}}
	case 10: // with soft ones besides, which count the feasible nodes
		r.AntiAffinity = []facts.AffinityTerm{{TopologyKey: "zone", Pods: podsOf(random)}}
		r.Spread = []facts.SpreadConstraint{{TopologyKey: facts.HostnameKey, MaxSkew: 1, Pods: podsOf(random)}, {TopologyKey: "zone", MaxSkew: 1, Pods: podsOf(random)}}
	case 11:
		r.Ports = []facts.HostPort{{Protocol: "TCP", IP: facts.AnyIP, Port: 80}}
	}
	return r
}

func podsOf(random *rand.Rand) facts.PodSelector {
	app := facts.Requirement{Key: "app", Operator: facts.In, Values: []string{fmt.Sprint(random.IntN(5))}}
	return facts.PodSelector{Namespaces: []string{""}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{app}}}
}

// TestSearchFollows fills some hundred nodes with pods that each have a size of their own, lets many go, and fills the nodes again: they move all over the
// forest, leaves are split and left empty, and trees are built anew.
func TestSearchFollows(t *testing.T) {
	profile, err := rules.NewProfile(nil)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	store, snapshot := cluster.NewStore(), cluster.NewSnapshot()
	placer := NewPlacer(snapshot, profile, 7, 4)
	for i := range 300 {
		n := &facts.Node{Name: fmt.Sprint("n", i), Allocatable: quantities("cpu", 64000, "memory", 256<<30, "pods", 200)}
		if i%7 == 0 {
			n.Taints = []facts.Taint{{Key: "x", Effect: facts.PreferNoSchedule}}
		}
		store.Apply(facts.NodeUpserted{Node: n})
	}
	var running []facts.UID
	for i := range 12_000 {
		uid := facts.UID(fmt.Sprint(i))
		cpu, memory := 100+random.Int64N(8000), 1+random.Int64N(32<<30)
		if i > 8000 { // few sizes: nodes come back to where they were
			cpu, memory = 8000*(1+random.Int64N(4)), (32<<30)*(1+random.Int64N(4))
		}
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Ours: true, Requirements: &facts.Requirements{
			Requests: quantities("cpu", int(cpu), "memory", int(memory)), ScoreCPU: cpu, ScoreMemory: memory,
		}}})
		snapshot.Advance(store)
		class := store.Pod(uid).Class
		choice, ok := placer.Place(class)
		if i%50 == 0 {
			if want := placer.Best(class); choice.Slot != want {
				t.Fatalf("pod %s: the search says slot %d, brute force %d", uid, choice.Slot, want)
			}
			if err := placer.index.Verify(); err != nil {
				t.Fatal(err)
			}
		}
		if ok {
			running = append(running, uid)
			store.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: snapshot.Node(choice.Slot).Name}}}, rules.Commits)
			continue
		}
		for range len(running) / 2 {
			at := random.IntN(len(running))
			store.Apply(facts.PodRemoved{UID: running[at]})
			running[at] = running[len(running)-1]
			running = running[:len(running)-1]
		}
	}
}
