package advise

import (
	"testing"
	"time"
)

// quiet is a node of some NUMA nodes that needs little.
func quiet(numaNodes int) *Observation {
	o := &Observation{Wall: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC), Reclaimed: []Reclaimed{{ID: "batch", MilliCPU: 4000, MemoryBytes: 4 << 30, CPUUse: Known(3), RunDelay: Known(1)}}}
	o.Node = Node{MemoryTotal: Known(float64(numaNodes) * (64 << 30)), MemoryAvailable: Known(float64(numaNodes) * (40 << 30)), CPUPressure: Known(0.01)}
	for range numaNodes {
		o.NUMANodes = append(o.NUMANodes, NUMANode{
			Divisible: 32, Threads: 2, Lent: 2, SharedUse: Known(4), SharedDelay: Known(0.1), SharedRequests: Known(24),
			MemoryTotal: Known(64 << 30), MemoryFree: Known(30 << 30), InactiveFile: Known(8 << 30), ReclaimedMemory: Known(2 << 30),
		})
	}
	return o
}

func BenchmarkStep(b *testing.B) {
	o, p, m := quiet(2), Defaults(), State{}
	b.ReportAllocs()
	for b.Loop() {
		o.At += time.Second
		o.Wall = o.Wall.Add(time.Second)
		a := Step(o, &p, &m)
		for i := range a.NUMANodes {
			o.NUMANodes[i].Lent = a.NUMANodes[i].Lend * o.NUMANodes[i].Threads
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	o, p, m := quiet(2), Defaults(), State{}
	Step(o, &p, &m)
	if n := testing.AllocsPerRun(1000, func() {
		o.At += time.Second
		o.Wall = o.Wall.Add(time.Second)
		Step(o, &p, &m)
	}); n != 0 {
		t.Errorf("a tick allocates %v times", n)
	}
}

// A pool with a profile has the CPUs that this wants, and the others what they need; but never less than use asks for.
func TestSteeredPools(t *testing.T) {
	for _, c := range []struct {
		name  string
		pools map[string]int
		use   Sample
		want  float64
	}{
		{"none", nil, Known(6), 10/0.55 + 1},
		{"more than it uses", map[string]int{"ads": 24}, Known(6), 12 + 7/0.55 + 1}, // half of each in each NUMA node
		{"less than it needs", map[string]int{"ads": 2}, Known(6), 10/0.55 + 1},
		{"what it uses is not known", map[string]int{"ads": 24}, Sample{}, 12 + 10/0.55 + 1},
	} {
		o, p, m := quiet(2), round(), State{}
		o.Services = []Service{{ID: "a", Pool: "ads", CPUUse: c.use}, {ID: "b", Pool: "share", CPUUse: Known(4)}}
		tick := begin(o, &p, &m)
		tick.steer(c.pools)
		if got := tick.need(10, p.TargetUse, &o.NUMANodes[0], &m.NUMANodes[0]); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: %v CPUs, want %v", c.name, got, c.want)
		}
	}
}
