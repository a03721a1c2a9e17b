package evict

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// A node whose reclaimed pods hold exactly what was published: no online growth, no page cache, no other change.
func TestRevSetpoint(t *testing.T) {
	t.Skip("issue 16: The node's promise holds when the agent, a disk or the hardware does not")
	const gib = 1 << 30
	total, online := float64(256*gib), float64(100*gib)
	ap := advise.Defaults()
	ap.UntouchedShare = 0 // not even that
	ep := Defaults()
	var am advise.State
	var em State
	var asked, held float64
	for sec := 0; sec < 3600; sec++ {
		at := time.Duration(sec) * time.Second
		free := total - online - held
		o := advise.Observation{At: at, Wall: time.Unix(int64(1e9+sec), 0)}
		o.NUMANodes = []advise.NUMANode{{
			Divisible: 62, Threads: 2, Lent: 8, SharedUse: advise.Known(5), SharedDelay: advise.Known(0), LentUse: advise.Known(1), SharedRequests: advise.Known(20),
			MemoryTotal: advise.Known(total), MemoryFree: advise.Known(free), InactiveFile: advise.Known(0), ReclaimedMemory: advise.Known(held), PromisedUse: advise.Known(0), Reserved: 256 << 20,
		}}
		o.Node = advise.Node{MemoryTotal: advise.Known(total), MemoryAvailable: advise.Known(free), MemoryPressure: advise.Known(0), CPUPressure: advise.Known(0)}
		o.Reclaimed = []advise.Reclaimed{{ID: "r/1", MilliCPU: 1000, MemoryBytes: int64(asked), CPUUse: advise.Known(1), RunDelay: advise.Known(0), Memory: advise.Known(held)}}
		a := advise.Step(&o, &ap, &am)
		pub := float64(a.NUMANodes[0].Memory.Published)
		eo := Observation{
			At: at, Node: Node{MemoryTotal: advise.Known(total), MemoryAvailable: advise.Known(free), MemorySome: advise.Known(0), MemoryFull: advise.Known(0), CPUPressure: advise.Known(0)},
			NUMANodes: []NUMANode{{Total: advise.Known(total), Free: advise.Known(free), InactiveFile: advise.Known(0)}},
			Pods:      []Pod{{PodRef: spec.PodRef{Namespace: "r", Name: "1", UID: "u1"}, Level: spec.QoSReclaimed, Memory: advise.Known(held), RSS: advise.Known(held), MemoryAmount: advise.Known(asked), CPU: advise.Known(1), RunDelay: advise.Known(0), NUMANodes: []advise.Sample{advise.Known(held)}}},
		}
		d := Step(&eo, &ep, &em)
		if len(d.Pressures) > 0 || sec%120 == 0 {
			if sec%120 == 0 || len(d.Requests) > 0 || sec%10 == 0 {
				t.Logf("%4ds published %.1f GiB held %.1f free %.2f%% pressures %v requests %d closed %q", sec, pub/gib, held/gib, 100*free/total, func() (s []string) {
					for _, p := range d.Pressures {
						s = append(s, p.Detector.String()+"/"+p.Level.String())
					}
					return s
				}(), len(d.Requests), d.Closed.Reason)
			}
		}
		if len(d.Requests) > 0 {
			t.Logf("EVICTION requested at %ds: %+v", sec, d.Requests[0])
			return
		}
		if pub > asked { // the scheduler fills what was published; the pod touches 100 MiB/s
			asked = pub
		}

		if held < asked {
			held = min(asked, held+float64(500<<20))
		}
	}
}
