package advise

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crowded is a node of one NUMA node and 16 cores, with an online server that uses some CPUs and a BestEffort pod that takes what is left of the shared ones and
// has many threads wait for more.
type crowded struct {
	state            State
	params           Params
	lent             int
	server, waits    float64
	threads, unknown bool
	pressure         Sample
}

func (c *crowded) second(at time.Duration) Advice {
	shared := float64(16 - c.lent)
	left := max(0, shared-c.server)
	o := Observation{At: at, Wall: time.Unix(1e9, 0).Add(at)}
	o.NUMANodes = []NUMANode{{
		Divisible: 16, Threads: 1, Lent: c.lent, SharedUse: Known(min(shared, c.server)), SharedDelay: Known(c.waits), LentUse: Known(float64(c.lent)),
		SharedRequests: Known(4), MemoryTotal: Known(1 << 36), MemoryFree: Known(1 << 35), InactiveFile: Known(0), ReclaimedMemory: Known(0), PromisedUse: Known(0),
	}}
	o.Node = Node{MemoryTotal: Known(1 << 36), MemoryAvailable: Known(1 << 35), MemoryPressure: Known(0), CPUPressure: c.pressure}
	o.Services = []Service{{ID: "server", Pool: "share", CPUUse: Known(min(shared, c.server)), CPUPressure: c.pressure}}
	if c.threads {
		o.NUMANodes[0].SharedUse, o.NUMANodes[0].SharedDelay = Known(shared), Known(c.waits+300)
		hog := Service{ID: "hog", Pool: "share", BestEffort: true, CPUUse: Known(left), RunDelay: Known(300), CPUPressure: Known(1)}
		if c.unknown {
			hog.CPUUse, hog.RunDelay = Sample{}, Sample{}
		}
		o.Services = append(o.Services, hog)
	}
	o.Reclaimed = []Reclaimed{{ID: "batch", MilliCPU: 16000, CPUUse: Known(float64(c.lent)), RunDelay: Known(0), Memory: Known(0)}}
	a := Step(&o, &c.params, &c.state)
	c.lent = a.NUMANodes[0].Lend
	return a
}

// A BestEffort pod without a level takes no more back than its share, however many threads it has. An online pod that waits beside it is served as ever, and what
// is not known of the BestEffort pod counts as the others' need.
func TestBestEffortRecallsNoLoan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := crowded{params: Defaults(), server: rapid.Float64Range(0, 8).Draw(t, "server"), pressure: Known(0)}
		alone := c
		run := func(c *crowded, from, to int) (a Advice) {
			for s := from; s < to; s++ {
				a = c.second(time.Duration(s) * time.Second)
			}
			return a
		}
		run(&alone, 0, 400)
		c.threads = true
		a := run(&c, 0, 400)
		took := float64(alone.lent - c.lent)
		if most := c.params.BestEffortShare*16/c.params.TargetUse + 1; took > most || took < 1 || a.Suppression != SuppressNone {
			t.Fatalf("a BestEffort pod takes %v of %d lent cores back, want 1 to %v; suppression %v", took, alone.lent, most, a.Suppression)
		}
		c.waits, c.pressure = 16, Known(0.7)
		if a = run(&c, 400, 410); c.lent != c.params.ReclaimedFloor || a.Suppression < SuppressFloor {
			t.Fatalf("the server waits, and %d cores are lent, suppression %v", c.lent, a.Suppression)
		}
	})
	c := crowded{params: Defaults(), server: 2, pressure: Known(0), threads: true, unknown: true}
	for s := range 400 {
		c.second(time.Duration(s) * time.Second)
	}
	if c.lent > c.params.ReclaimedFloor {
		t.Errorf("nothing is known of the BestEffort pod, and %d cores are lent", c.lent)
	}
}
