package bench

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// BenchmarkDecide is the table of placements a second.
func BenchmarkDecide(b *testing.B) {
	for _, row := range []struct {
		name     string
		scenario Scenario
	}{
		{"basic/nodes=310/classes=100", Scenario{Nodes: 310, Classes: 100, Case: Basic}},
		{"basic/nodes=310/classes=100/cpuworth", Scenario{Nodes: 310, Classes: 100, Case: Basic}},
		{"basic/nodes=20000/classes=16/cpuworth", Scenario{Nodes: 20000, Classes: 16, Case: Basic}},
		{"basic/nodes=20000/classes=1", Scenario{Nodes: 20000, Classes: 1, Case: Basic}},
		{"basic/nodes=20000/classes=16", Scenario{Nodes: 20000, Classes: 16, Case: Basic}},
		{"lent/nodes=20000/classes=16", Scenario{Nodes: 20000, Classes: 16, Case: Lent}},
		{"reclaimed/nodes=20000/classes=16", Scenario{Nodes: 20000, Classes: 16, Case: Reclaimed}},
		{"owned/nodes=20000/classes=16", Scenario{Nodes: 20000, Classes: 16, Case: Owned}},
		{"basic/nodes=20000/classes=100", Scenario{Nodes: 20000, Classes: 100, Case: Basic}},
		{"basic/nodes=20000/classes=1000", Scenario{Nodes: 20000, Classes: 1000, Case: Basic}},
		{"owned/nodes=20000/classes=1000", Scenario{Nodes: 20000, Classes: 1000, Case: Owned}},
		{"basic/nodes=100000/classes=16", Scenario{Nodes: 100000, Classes: 16, Case: Basic}},
		{"spread/nodes=5000/classes=16", Scenario{Nodes: 5000, Classes: 16, Case: Spread}},
		{"antiaffinity/nodes=5000/classes=64", Scenario{Nodes: 5000, Classes: 64, Case: AntiAffinity}},
		{"affinity/nodes=5000/classes=16", Scenario{Nodes: 5000, Classes: 16, Case: Affinity}},
		{"gpus/nodes=20000/classes=16", Scenario{Nodes: 20000, Classes: 16, Case: Shared}},
	} {
		row.scenario.Fill, row.scenario.Seed = 60, 42
		var weights map[string]int64
		if strings.HasSuffix(row.name, "/cpuworth") {
			weights = map[string]int64{"CPUWorth": 1}
		}
		b.Run(row.name, func(b *testing.B) { benchmarkDecide(b, row.scenario, weights) })
	}
}

// benchmarkDecide fills the ledger, and then places pod after pod: the oldest leaves and one of its class comes. Scores have the default weights, but for those that are given.
func benchmarkDecide(b *testing.B, scenario Scenario, weights map[string]int64) {
	before := heapBytes()
	nodes, classes := scenario.GenerateNodes(), scenario.GenerateClasses()
	order := scenario.Order(nodes, classes)
	store := NewStore(nodes, classes, order, facts.SystemSpreadDefaults...)
	profile, err := rules.NewProfile(weights)
	if err != nil {
		b.Fatal(err)
	}
	snapshot := cluster.NewSnapshot()
	r := &run{store: store, market: profile.Market(), snapshot: snapshot, placer: place.NewPlacer(snapshot, profile, 1, 4*len(classes)), plan: cluster.Plan{Placements: make([]cluster.Placement, 1)}}
	for i := range order {
		if !r.place(PodUID(i)) {
			r.dropped = append(r.dropped, PodUID(i))
		}
	}
	for _, uid := range r.dropped {
		store.Apply(facts.PodRemoved{UID: uid})
	}
	var ring []facts.UID
	for i := range order {
		if pod := store.Pod(PodUID(i)); pod != nil {
			ring = append(ring, pod.UID)
		}
	}
	held := heapBytes() - before
	next, failed := 0, 0
	b.ReportAllocs()
	began := processTime()
	for b.Loop() {
		uid := ring[next%len(ring)]
		next++
		store.Release(uid)
		if !r.place(uid) {
			failed++
		}
	}
	b.ReportMetric(float64((processTime()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "placements/s")
	b.ReportMetric(float64(DistinctStates(store)), "states")
	b.ReportMetric(float64(len(ring))/float64(len(nodes)), "pods/node")
	b.ReportMetric(float64(held)/float64(len(ring)+len(nodes)), "B/node+pod")
	if failed > 0 {
		b.ReportMetric(float64(failed)/float64(b.N), "unplaced/op")
	}
	if len(r.dropped) > len(order)/10 {
		b.Fatalf("%d of %d pods found no node while filling", len(r.dropped), len(order))
	}
}

type run struct {
	store    *cluster.Store
	snapshot *cluster.Snapshot
	placer   *place.Placer
	market   *rules.Market
	plan     cluster.Plan
	dropped  []facts.UID
}

// place decides on one pod and commits the decision.
func (r *run) place(uid facts.UID) bool {
	r.snapshot.Advance(r.store)
	class := r.store.Pod(uid).Class
	if r.market.Arrived(class.Requirements); r.market.Due() {
		r.market.Learn(r.store)
	}
	choice, ok := r.placer.Place(class)
	if !ok {
		return false
	}
	r.plan.Placements[0] = cluster.Placement{Pod: uid, Node: r.snapshot.Node(choice.Slot).Name, Grant: choice.Grant}
	return r.store.Commit(&r.plan, rules.Commits).Committed
}

// processTime is the CPU time that the process has used: what is left of a busy machine does not change it much.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
