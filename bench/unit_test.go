package bench

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// Labels of the racks and blocks that BenchmarkUnit packs gangs by.
const (
	labelRack  = "topology.hilbert.dev/rack"
	labelBlock = "topology.hilbert.dev/block"
)

// BenchmarkUnit is gangs a second on 10,000 nodes in 500 racks and 20 blocks, 60 % full: one op is a gang that leaves, and one of its size
// that is placed, committed and charged.
func BenchmarkUnit(b *testing.B) {
	required, preferred := facts.Packing{Required: labelRack}, facts.Packing{Preferred: labelRack}
	for _, row := range []struct {
		name    string
		members int
		packing facts.Packing
	}{
		{"free/members=3", 3, facts.Packing{}},
		{"free/members=32", 32, facts.Packing{}},
		{"free/members=512", 512, facts.Packing{}},
		{"required-rack/members=64", 64, required},
		{"preferred-rack/members=64", 64, preferred},
		{"preferred-rack/members=512", 512, preferred},
		{"required-block/members=512", 512, facts.Packing{Required: labelBlock}},
		{"spread-racks/members=64", 64, facts.Packing{Spread: labelRack}},
		{"uniform-pool/members=64", 64, facts.Packing{Uniform: LabelPool}},
		{"preferred-host/members=64", 64, facts.Packing{Preferred: LabelHostname}},
	} {
		b.Run(row.name, func(b *testing.B) { benchmarkUnit(b, row.members, row.packing) })
	}
}

// gangs is the world of BenchmarkUnit.
type gangs struct {
	store    *cluster.Store
	snapshot *cluster.Snapshot
	placer   *place.Placer
	asks     []pack.Ask
	plan     cluster.Plan
}

func benchmarkUnit(b *testing.B, members int, packing facts.Packing) {
	g := newGangs(b, members, packing)
	var running []int
	for i := range g.asks {
		if g.start(i) {
			running = append(running, i)
		}
	}
	if len(running) < len(g.asks)*9/10 {
		b.Fatalf("%d of %d gangs found a place while filling", len(running), len(g.asks))
	}
	failed := 0
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		gang := running[i%len(running)]
		for _, pod := range g.asks[gang].Members {
			g.store.Release(pod.UID)
		}
		if !g.start(gang) {
			failed++
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gangs/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*members), "ns/pod")
	if failed > 0 {
		b.ReportMetric(float64(failed)/float64(b.N), "unplaced/op")
	}
}

func newGangs(b *testing.B, members int, packing facts.Packing) *gangs {
	profile, err := rules.NewProfile(nil)
	if err != nil {
		b.Fatal(err)
	}
	g := &gangs{store: cluster.NewStore(facts.SystemSpreadDefaults...), snapshot: cluster.NewSnapshot()}
	g.placer = place.NewPlacer(g.snapshot, profile, 1, 64)
	g.placer.SetLevels([]string{labelBlock, labelRack, LabelHostname})
	scenario := Scenario{Nodes: 10_000, Classes: 16, Case: Basic, Fill: 60, Seed: 42}
	nodes, classes := scenario.GenerateNodes(), scenario.GenerateClasses()
	var capacity, held int64
	for i := range nodes {
		nodes[i].Labels[labelRack], nodes[i].Labels[labelBlock] = fmt.Sprintf("rack-%03d", i/20), fmt.Sprintf("block-%02d", i/500)
		g.store.Apply(facts.NodeUpserted{Node: nodes[i].ClusterNode()})
		capacity += nodes[i].CPU
	}
	for n := 0; held < capacity*int64(scenario.Fill)/100; n++ {
		class := classes[n%len(classes)]
		if !packing.IsZero() { // a rack has some 2,000 cores, 800 of them free
			class.Pool, class.CPU, class.Memory = "", 1000+500*int64(n%16), 2<<30
		}
		held += int64(members) * class.CPU
		g.asks = append(g.asks, g.newGang(n, members, &class, packing))
	}
	return g
}

// newGang adds the pods of a gang that waits.
func (g *gangs) newGang(n, members int, class *Class, packing facts.Packing) pack.Ask {
	name := fmt.Sprintf("gang-%05d", n)
	g.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{
		UnitName: facts.UnitName{Namespace: Namespace, Name: name}, UID: facts.UID(name), MinMember: int32(members), Topology: packing,
	}})
	ask := pack.Ask{Need: members, Topology: packing}
	seen := class.Facts()
	seen.Unit = name
	for i := range members {
		seen.UID = facts.UID(fmt.Sprintf("%s-%d", name, i))
		g.store.Apply(facts.PodUpserted{Pod: seen})
		ask.Members = append(ask.Members, g.store.Pod(seen.UID))
	}
	return ask
}

// start places a gang and commits it.
func (g *gangs) start(gang int) bool {
	g.snapshot.Advance(g.store)
	placed, ok := g.placer.PlaceUnit(&g.asks[gang])
	if !ok {
		return false
	}
	g.plan.Placements = g.plan.Placements[:0]
	for _, m := range placed {
		g.plan.Placements = append(g.plan.Placements, cluster.Placement{Pod: m.Pod.UID, Node: g.snapshot.Node(m.Slot).Name, Grant: m.Grant})
	}
	return g.store.Commit(&g.plan, rules.Commits).Committed
}
