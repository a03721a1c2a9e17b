package advise

import (
	"testing"
	"time"
)

// quiet is a node of some zones that needs little.
func quiet(zones int) *Observation {
	o := &Observation{Wall: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC), Reclaimed: []Reclaimed{{ID: "batch", MilliCPU: 4000, MemoryBytes: 4 << 30, CPUUse: Known(3), RunDelay: Known(1)}}}
	o.Node = Node{MemoryTotal: Known(float64(zones) * (64 << 30)), MemoryAvailable: Known(float64(zones) * (40 << 30)), CPUPressure: Known(0.01)}
	for range zones {
		o.Zones = append(o.Zones, Zone{
			Divisible: 32, Threads: 2, Lent: 2, SharedUse: Known(4), SharedDelay: Known(0.1), SharedRequests: Known(24),
			MemoryTotal: Known(64 << 30), MemoryFree: Known(30 << 30), InactiveFile: Known(8 << 30), ReclaimedMemory: Known(2 << 30),
		})
	}
	return o
}

func BenchmarkStep(b *testing.B) {
	o, p, m := quiet(2), Defaults(), Memory{}
	b.ReportAllocs()
	for b.Loop() {
		o.At += time.Second
		o.Wall = o.Wall.Add(time.Second)
		a := Step(o, &p, &m)
		for i := range a.Zones {
			o.Zones[i].Lent = a.Zones[i].Lend * o.Zones[i].Threads
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	o, p, m := quiet(2), Defaults(), Memory{}
	Step(o, &p, &m)
	if n := testing.AllocsPerRun(1000, func() {
		o.At += time.Second
		o.Wall = o.Wall.Add(time.Second)
		Step(o, &p, &m)
	}); n != 0 {
		t.Errorf("a tick allocates %v times", n)
	}
}
