package evict

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// filled is a machine whose reclaimed pod takes all that is published at once, and holds it, beside online pods that use what they use.
type filled struct {
	total, online, reserved    float64
	minWatermark, lowWatermark advise.Sample
	laws                       advise.Params
	marks                      Params
	lawState                   advise.State
	state                      State
	held                       float64
}

func newFilled(total, online, reserved float64) *filled {
	f := &filled{total: total, online: online, reserved: reserved, laws: advise.Defaults(), marks: Defaults()}
	f.laws.UntouchedShare = 0 // what is asked for fits at once
	return f
}

// second lets a second pass, and answers what was published and decided.
func (f *filled) second(at time.Duration) (published float64, d Decision) {
	total, free := advise.Known(f.total), advise.Known(max(0, f.total-f.online-f.held))
	o := advise.Observation{At: at, Wall: time.Unix(1e9, 0).Add(at)}
	o.NUMANodes = []advise.NUMANode{{
		Divisible: 62, Threads: 2, Lent: 8, SharedUse: advise.Known(5), SharedDelay: advise.Known(0), LentUse: advise.Known(1), SharedRequests: advise.Known(20),
		MemoryTotal: total, MemoryFree: free, InactiveFile: advise.Known(0), ReclaimedMemory: advise.Known(f.held), PromisedUse: advise.Known(0),
		Reserved: int64(f.reserved), EvictBelow: f.marks.NUMAShortBelow(total, f.lowWatermark),
	}}
	o.Node = advise.Node{
		MemoryTotal: total, MemoryAvailable: free, MemoryPressure: advise.Known(0), CPUPressure: advise.Known(0),
		EvictBelow: f.marks.NodeShortBelow(total, f.minWatermark),
	}
	o.Reclaimed = []advise.Reclaimed{{ID: "r/1", MilliCPU: 1000, MemoryBytes: int64(f.held), CPUUse: advise.Known(1), RunDelay: advise.Known(0), Memory: advise.Known(f.held)}}
	advice := advise.Step(&o, &f.laws, &f.lawState)
	d = Step(&Observation{
		At:        at,
		Node:      Node{MemoryTotal: total, MemoryAvailable: free, MemorySome: advise.Known(0), MemoryFull: advise.Known(0), CPUPressure: advise.Known(0), MinWatermark: f.minWatermark},
		NUMANodes: []NUMANode{{Total: total, Free: free, InactiveFile: advise.Known(0), LowWatermark: f.lowWatermark}},
		Pods: []Pod{{
			PodRef: spec.PodRef{Namespace: "r", Name: "1", UID: "u1"}, Level: spec.QoSReclaimed, Memory: advise.Known(f.held), RSS: advise.Known(f.held),
			MemoryAmount: advise.Known(f.held), CPU: advise.Known(1), RunDelay: advise.Known(0), NUMANodes: []advise.Sample{advise.Known(f.held)},
		}},
	}, &f.marks, &f.state)
	return float64(advice.NUMANodes[0].Memory.Published), d
}

// No pod has to go for holding what was published, on machines of every size, whatever the kernel's watermarks are.
func TestWhatIsLentIsNotShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Float64Range(1, 2048).Draw(t, "total GiB") * gibibyte
		f := newFilled(total, rapid.Float64Range(0.02, 0.95).Draw(t, "online")*total, float64(rapid.IntRange(0, 1024).Draw(t, "reserved"))*mebibyte)
		f.minWatermark = advise.Sample{Value: rapid.Float64Range(0, 0.03).Draw(t, "min") * total, Known: rapid.Bool().Draw(t, "known")}
		f.lowWatermark = advise.Sample{Value: f.minWatermark.Value * 1.5, Known: f.minWatermark.Known}
		for s := range 400 {
			published, d := f.second(time.Duration(s) * time.Second)
			lent := f.held
			f.held = max(f.held, published)
			if d.Closed.Reason != "" || len(d.Requests)+len(d.Pressures) > 0 && lent > 0 {
				t.Fatalf("%d s: %.0f MiB of %.0f are lent, and there is %v", s, lent/mebibyte, total/mebibyte, d.Pressures)
			}
		}
	})
}

// Small machines lend as well: absolute marks do not count in full there.
func TestSmallMachinesLend(t *testing.T) {
	for _, c := range []struct{ total, online, least float64 }{{980, 250, 200}, {2000, 600, 600}} {
		f := newFilled(c.total*mebibyte, c.online*mebibyte, 256*mebibyte)
		var published float64
		for s := range 300 {
			published, _ = f.second(time.Duration(s) * time.Second)
		}
		if published < c.least*mebibyte {
			t.Errorf("a machine of %.0f MiB with %.0f in use lends %.0f MiB, want %.0f", c.total, c.online, published/mebibyte, c.least)
		}
	}
}

// Marks within which headroom has its setpoint are refused by the names of both.
func TestReserve(t *testing.T) {
	laws, marks := advise.Defaults(), Defaults()
	if err := spec.CheckReserve(&laws.MemoryHeadroom, &marks.NodeEviction); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	laws.GrowthReserve = 0.05
	err := spec.CheckReserve(&laws.MemoryHeadroom, &marks.NodeEviction)
	if err == nil || !strings.Contains(err.Error(), "raise growthReserve to 8 %, or lower memory.soft.share") || strings.Contains(err.Error(), "numaNode") {
		t.Errorf("a growth reserve of 5 %%: %v", err)
	}
	laws.GrowthReserve, marks.NUMANode.Soft.Share, marks.Pressure.Below.Share = 0.08, 0.09, 0.11
	if err := spec.CheckReserve(&laws.MemoryHeadroom, &marks.NodeEviction); err == nil || !strings.Contains(err.Error(), "lower numaNode.soft.share") || !strings.Contains(err.Error(), "lower pressure.below.share") {
		t.Errorf("higher marks: %v", err)
	}
}
