package report

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// TestPageCacheWritesNoReports: 20,000 nodes of 512 GiB whose page cache fills (half of it active), until the kernel takes it back at 2 % free, write
// reports hardly more often than to refresh them, while a tenth of the memory is promised.
func TestPageCacheWritesNoReports(t *testing.T) {
	const gib, mib = 1 << 30, 1 << 20
	const most = 800 // writes a second for 20,000 nodes
	promised := spec.ReclaimedAmounts{MilliCPU: 10_000, MemoryMiB: 50 << 10}
	for _, rate := range []float64{0, 100, 300} {
		p := advise.Defaults()
		var m advise.State
		th := NewThrottle("n1", 10*time.Second, 5*time.Minute)
		th.Refresh(25 * time.Second)
		base := time.Unix(1e9, 0)
		var last *spec.NodeReport
		writes, cache := 0, 0.0
		total, anon := float64(512*gib), float64(150*gib)
		const from, to = 1200, 1800
		for s := range to {
			if s > from {
				cache += rate * mib
			}
			if total-anon-cache < 0.02*total {
				cache -= 0.05 * total
			}
			free := total - anon - cache
			o := advise.Observation{At: time.Duration(s) * time.Second, Wall: base.Add(time.Duration(s) * time.Second)}
			o.NUMANodes = []advise.NUMANode{{
				Divisible: 126, Threads: 2, Lent: 8, SharedUse: advise.Known(10), SharedDelay: advise.Known(0), LentUse: advise.Known(1), SharedRequests: advise.Known(20),
				MemoryTotal: advise.Known(total), MemoryFree: advise.Known(free), InactiveFile: advise.Known(cache / 2), ReclaimedMemory: advise.Known(0), PromisedUse: advise.Known(0),
			}}
			o.Node = advise.Node{MemoryTotal: advise.Known(total), MemoryAvailable: advise.Known(free + cache/2), MemoryPressure: advise.Known(0), CPUPressure: advise.Known(0)}
			a := advise.Step(&o, &p, &m)
			r := &spec.NodeReport{Status: spec.NodeStatus{Colocation: &spec.Colocation{Headroom: spec.ReclaimedAmounts{MilliCPU: a.NUMANodes[0].CPU.Published, MemoryMiB: a.NUMANodes[0].Memory.Published / mib}}}}
			now := base.Add(time.Duration(s) * time.Second)
			if th.Wait(now, Compare(last, r, promised)) == 0 {
				th.Began(now)
				th.Ended(true)
				last = r
				if s > from {
					writes++
				}
			}
		}
		perSecond := float64(writes) / (to - from) * 20_000
		t.Logf("page cache %3.0f MiB/s: %d writes in %d s, %.0f a second for 20,000 nodes", rate, writes, to-from, perSecond)
		if perSecond > most {
			t.Errorf("page cache fills at %.0f MiB/s: %.0f writes a second for 20,000 nodes, at most %d should be", rate, perSecond, most)
		}
	}
}
