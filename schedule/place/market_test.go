package place

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestMarket replays testdata/market: nodes and pods as in every transcript; "pods" stand for count= of them. arrived tells the market of pods
// and finds prices, if that is due; place says where a pod goes, and the score GPUWorth of each node that it fits.
func TestMarket(t *testing.T) {
	datadriven.Walk(t, "testdata/market", func(t *testing.T, path string) {
		profile, err := rules.NewProfile(nil)
		if err != nil {
			t.Fatal(err)
		}
		store, snapshot := cluster.NewStore(), cluster.NewSnapshot()
		placer := NewPlacer(snapshot, profile, 0, 8)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var seen []facts.Pod
			for line := range strings.Lines(d.Input) {
				command, args, err := datadriven.ParseLine(strings.TrimSpace(line))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				each(&datadriven.TestData{Pos: d.Pos, Cmd: command, CmdArgs: args}, func(said *datadriven.TestData) {
					if command == "node" {
						store.Apply(facts.NodeUpserted{Node: script.Node(t, said)})
					} else {
						seen = append(seen, script.Pod(t, said))
					}
				})
			}
			var b strings.Builder
			for i := range seen {
				switch d.Cmd {
				case "cluster":
					store.Apply(facts.PodUpserted{Pod: seen[i]})
				case "arrived":
					profile.Market().Arrived(seen[i].Requirements)
				case "place":
					snapshot.Advance(store)
					b.WriteString(placeOnMarket(placer, store.Class(seen[i].Requirements), seen[i].Name))
				default:
					d.Fatalf(t, "%q: want cluster, arrived or place", d.Cmd)
				}
			}
			if d.Cmd == "arrived" {
				due := profile.Market().Due()
				if due {
					profile.Market().Learn(store)
				}
				fmt.Fprintf(&b, "due: %v, price list %d\n", due, profile.Market().Revision())
			}
			return b.String()
		})
	})
}

func placeOnMarket(p *Placer, c *cluster.Class, name string) string {
	choice, ok := p.Place(c)
	if !ok {
		return name + " fits nowhere\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s goes to %s", name, p.snapshot.Node(choice.Slot).Name)
	for _, j := range p.Ranking(c) {
		for _, s := range j.Scores {
			if strings.HasPrefix(s.Name, "GPU") {
				fmt.Fprintf(&b, "; %s %s %d", p.snapshot.Node(j.Slot).Name, s.Name, s.Score)
			}
		}
	}
	return b.String() + "\n"
}

// TestPricedRankingIsExact fills and empties a ledger of nodes with and without GPUs while prices change, and compares the decisions of rankings and
// indexes with brute force.
func TestPricedRankingIsExact(t *testing.T) {
	lists := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		profile, err := rules.NewProfile(map[string]int64{"GPUWorth": rapid.Int64Range(0, 3).Draw(t, "weight"), "MostAllocated": rapid.Int64Range(0, 2).Draw(t, "most"), "CPUWorth": rapid.Int64Range(0, 2).Draw(t, "cpu worth")})
		if err != nil {
			t.Fatal(err)
		}
		market := profile.Market()
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		store, snapshot := cluster.NewStore(), cluster.NewSnapshot()
		placer := NewPlacer(snapshot, profile, 7, rapid.IntRange(1, 9).Draw(t, "rankings"))
		placer.SetUsesBeforeIndex(rapid.SampledFrom([]int{0, 1000}).Draw(t, "uses before an index"))
		placer.SetMaxNodeClasses(rapid.SampledFrom([]int{1, 4, 1000}).Draw(t, "node classes"))
		placer.SetMaxGPUStates(rapid.SampledFrom([]int{0, 3, 1000}).Draw(t, "states"))
		for i := range rapid.IntRange(1, 60).Draw(t, "nodes") {
			store.Apply(facts.NodeUpserted{Node: pricedNode(random, i)})
		}
		for i := range rapid.IntRange(10, 200).Draw(t, "pods") {
			uid := facts.UID(fmt.Sprint(i))
			r := pricedRequirements(random)
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Ours: true, Requirements: r, Labels: []facts.Label{{Key: "app", Value: "a"}}}})
			market.Arrived(r)
			switch random.IntN(6) {
			case 0:
				store.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(random.IntN(i + 1)))})
			case 1:
				store.Apply(facts.NodeUpserted{Node: pricedNode(random, random.IntN(60))})
			case 2:
				market.Learn(store)
			}
			placeVerified(t, store, placer, uid)
		}
		lists = max(lists, market.Revision())
	})
	if lists < 3 {
		t.Errorf("at most %d price lists were found in a history", lists)
	}
}

// placeVerified places a pod that is still there, against computing all scores, and verifies the index.
func placeVerified(t *rapid.T, store *cluster.Store, placer *Placer, uid facts.UID) {
	t.Helper()
	if store.Pod(uid) != nil {
		placeRanked(t, store, placer, uid)
	}
	if err := placer.index.Verify(); err != nil {
		t.Fatal(err)
	}
}

// TestHostPricedRankingIsExact does the same with nodes and pods without GPUs, and with lists as they are due.
func TestHostPricedRankingIsExact(t *testing.T) {
	lists := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		profile, err := rules.NewProfile(map[string]int64{"CPUWorth": rapid.Int64Range(1, 2).Draw(t, "cpu worth")})
		if err != nil {
			t.Fatal(err)
		}
		market := profile.Market()
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		store, snapshot := cluster.NewStore(), cluster.NewSnapshot()
		placer := NewPlacer(snapshot, profile, 7, rapid.IntRange(1, 9).Draw(t, "rankings"))
		placer.SetUsesBeforeIndex(rapid.SampledFrom([]int{0, 1000}).Draw(t, "uses before an index"))
		for i := range rapid.IntRange(2, 30).Draw(t, "nodes") {
			n := rankedNode(random, i)
			n.GPU = topology.Shape{}
			store.Apply(facts.NodeUpserted{Node: n})
		}
		for i := range 120 {
			uid := facts.UID(fmt.Sprint(i))
			r := pricedRequirements(random)
			r.GPU = topology.Request{}
			r.Required, r.NodeSelector = nil, nil
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Ours: true, Requirements: r, Labels: []facts.Label{{Key: "app", Value: "a"}}}})
			if market.Arrived(r); market.Due() {
				market.Learn(store)
			}
			if random.IntN(3) == 0 {
				store.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(random.IntN(i + 1)))})
			}
			placeVerified(t, store, placer, uid)
		}
		lists = max(lists, market.Revision())
	})
	if lists < 3 {
		t.Errorf("at most %d price lists were found in a history", lists)
	}
}

func pricedNode(random *rand.Rand, i int) *facts.Node {
	n := rankedNode(random, i)
	n.GPU = topology.Shape{}
	if random.IntN(4) > 0 {
		n.GPU = topology.Shape{GPUs: 1 + random.IntN(8), Model: []string{"A", "B"}[random.IntN(2)], Shareable: true}
	}
	return n
}

func pricedRequirements(random *rand.Rand) *facts.Requirements {
	r := rankedRequirements(random)
	r.GPU = topology.Request{}
	switch random.IntN(4) {
	case 0, 1:
		r.GPU.Milli = []int16{190, 250, 500, 810}[random.IntN(4)]
	case 2:
		r.GPU.Whole = 1 + int8(random.IntN(2))
	}
	if random.IntN(4) == 0 {
		key, hard := "zone", true
		if random.IntN(2) == 0 { // scored over hosts: not among what selections spread over
			key, hard = facts.HostnameKey, false
		}
		r.Spread = []facts.SpreadConstraint{{TopologyKey: key, MaxSkew: 2, Hard: hard, MinDomains: 1, Pods: facts.PodSelector{
			Namespaces: []string{""}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{"a"}}}},
		}}}
	}
	return r
}

// TestOwnSearchCountsFeasibleGroups: a node that is full, and is preferred the most, does not count when preferences are scaled, for a class with a selection
// of its own too.
func TestOwnSearchCountsFeasibleGroups(t *testing.T) {
	profile, err := rules.NewProfile(nil)
	if err != nil {
		t.Fatal(err)
	}
	store, snapshot := cluster.NewStore(), cluster.NewSnapshot()
	placer := NewPlacer(snapshot, profile, 3, 16)
	placer.SetMaxNodeClasses(1)
	placer.SetUsesBeforeIndex(1000)
	for i, used := range []int64{0, 7000, 10000} {
		n := &facts.Node{Name: fmt.Sprint("n", i), Labels: map[string]string{"disk": fmt.Sprint(i)}, Allocatable: quantities("cpu", 10000, "memory", 10000<<20, "pods", 10)}
		store.Apply(facts.NodeUpserted{Node: n})
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID("on " + n.Name), Node: n.Name, Requirements: &facts.Requirements{
			Requests: quantities("cpu", int(used), "memory", int(used<<20)), ScoreCPU: used, ScoreMemory: used << 20,
		}}})
	}
	store.Apply(facts.NodeUpserted{Node: &facts.Node{
		Name: "gpus", GPU: topology.Shape{GPUs: 4, Model: "A", Shareable: true}, Allocatable: quantities("cpu", 500, "memory", 1<<30, "pods", 10),
	}})
	for range 100 {
		profile.Market().Arrived(&facts.Requirements{GPU: topology.Request{Whole: 1}, Requests: quantities("cpu", 100)})
	}
	profile.Market().Learn(store)
	r := &facts.Requirements{Requests: quantities("cpu", 1000, "memory", 1000<<20), ScoreCPU: 1000, ScoreMemory: 1000 << 20}
	for i, weight := range []int32{10, 20, 50} {
		r.Preferred = append(r.Preferred, facts.WeightedTerm{Weight: weight, Term: facts.Term{
			Expressions: []facts.Requirement{{Key: "disk", Operator: facts.In, Values: []string{fmt.Sprint(i)}}},
		}})
	}
	class := store.Class(r)
	snapshot.Advance(store)
	choice, ok := placer.Place(class)
	if want := placer.Best(class); !ok || choice.Slot != want || snapshot.Node(want).Name != "n1" {
		t.Errorf("the pod goes to slot %d, brute force says %d, %s; want n1", choice.Slot, want, snapshot.Node(want).Name)
	}
}
