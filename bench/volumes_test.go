package bench

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// BenchmarkVolumes is placements a second of pods that each have a claim of their own, as those of StatefulSets do. Nodes are in ten zones, and attach 25
// volumes of the driver. In the rows bound the claims are bound to volumes in one of the zones; in waits a volume is provisioned once the pod has its node
// (WaitForFirstConsumer), and the promise is part of the placement; plain has no claims, for comparison.
func BenchmarkVolumes(b *testing.B) {
	for _, row := range []string{"plain", "bound", "waits"} {
		b.Run(fmt.Sprintf("%s/nodes=%d", row, volumeNodes), func(b *testing.B) { benchmarkVolumes(b, row) })
	}
}

const (
	volumeNodes = 20_000
	volumePods  = 100_000
	volumeZones = 10
)

func volumeCluster(row string) *cluster.Store {
	store := cluster.NewStore(facts.SystemSpreadDefaults...)
	store.Apply(facts.StorageUpserted{Object: &facts.StorageClass{Name: "fast", Driver: "csi", Attaches: "csi", Waits: true}})
	for i := range volumeNodes {
		name := nodeName(i)
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: name, Labels: map[string]string{facts.HostnameKey: name, facts.LabelZone: fmt.Sprint("zone-", i%volumeZones)},
			Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 32_000}, {Name: resource.NameMemory, Amount: 128 << 30}, {Name: resource.NamePods, Amount: 110}},
		}})
		store.Apply(facts.StorageUpserted{Object: &facts.StorageNode{Node: name, Drivers: []facts.NodeDriver{{Name: "csi", Limit: 25, Limited: true}}}})
	}
	for i := range volumePods {
		claim := facts.ClaimName{Namespace: "default", Name: fmt.Sprint("data-", i)}
		c := &facts.Claim{ClaimName: claim, UID: claim.Name, StorageClass: "fast", Size: 10 << 30, Sized: true, Modes: facts.ReadWriteOnce}
		pod := facts.Pod{UID: PodUID(i), Namespace: "default", Name: fmt.Sprint("db-", i), Ours: true, Requirements: requirements(1000, 4<<30), Claims: []facts.ClaimUse{{Claim: claim.Name}}}
		switch row {
		case "plain":
			pod.Claims = nil
		case "bound":
			c.Volume, c.Bound = fmt.Sprint("pv-", i), true
			zone := facts.Requirement{Key: facts.LabelZone, Operator: facts.In, Values: []string{fmt.Sprint("zone-", i%volumeZones)}}
			store.Apply(facts.StorageUpserted{Object: &facts.Volume{
				Name: c.Volume, StorageClass: "fast", Size: c.Size, Modes: c.Modes, Claim: claim, ClaimUID: c.UID,
				Handle: facts.VolumeHandle{Driver: "csi", Handle: c.Volume}, Nodes: []facts.Term{{Expressions: []facts.Requirement{zone}}},
			}})
		}
		store.Apply(facts.StorageUpserted{Object: c})
		store.Apply(facts.PodUpserted{Pod: pod})
	}
	return store
}

func benchmarkVolumes(b *testing.B, row string) {
	store := volumeCluster(row)
	profile, err := rules.NewProfile(nil)
	if err != nil {
		b.Fatal(err)
	}
	snapshot := cluster.NewSnapshot()
	r := &run{store: store, market: profile.Market(), snapshot: snapshot, placer: place.NewPlacer(snapshot, profile, 1, 256), plan: cluster.Plan{Placements: make([]cluster.Placement, 1)}}
	for i := range volumePods / 2 {
		if !r.place(PodUID(i)) {
			b.Fatalf("pod %d found no node while filling", i)
		}
		store.Consequences()
	}
	next, failed := 0, 0
	b.ReportAllocs()
	began := processTime()
	for b.Loop() {
		gone, comes := PodUID(next%volumePods), PodUID((next+volumePods/2)%volumePods)
		next++
		store.Release(gone)
		store.Consequences()
		if !r.place(comes) {
			failed++
		}
		store.Consequences()
	}
	cpu := processTime() - began
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/cpu.Seconds(), "placements/cpu-s")
	if failed > 0 {
		b.ReportMetric(float64(failed)/float64(b.N), "unplaced/op")
	}
}
