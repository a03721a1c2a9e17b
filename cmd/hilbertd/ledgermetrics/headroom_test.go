package ledgermetrics

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
)

// What nodes lend is summed up, what is withheld is not, and headroom below what is requested is told apart from over-commitment.
func TestHeadroomCounts(t *testing.T) {
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	for name, h := range map[string]facts.Headroom{
		"open":   {State: facts.HeadroomOpen, MilliCPU: 3000, Memory: 1 << 30},
		"short":  {State: facts.HeadroomOpen, MilliCPU: 500, Memory: 1 << 30},
		"closed": {State: facts.HeadroomClosed, MilliCPU: 9000, Memory: 9 << 30},
		"stale":  {State: facts.HeadroomStale, MilliCPU: 9000, Memory: 9 << 30},
		"silent": {},
	} {
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 9}}}}, now)
		r := &facts.NodeReport{Headroom: h}
		if name == "open" {
			r.Evictions = []facts.EvictionRequest{{UID: "p", Namespace: "default", Name: "p"}, {UID: "q", Namespace: "default", Name: "q"}}
		}
		s.Apply(facts.NodeReported{Node: name, Report: r}, now)
	}
	pod := func(name, node string, level bool) {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "default", Name: name, Node: node, Requirements: &facts.Requirements{Reclaimed: level, Requests: []resource.Quantity{
				{Name: spec.ResourceReclaimedCPU, Amount: 1000}, {Name: spec.ResourceReclaimedMemory, Amount: 1 << 20},
			}},
		}}, now)
	}
	pod("p", "open", true)
	pod("q", "open", false)
	pod("r", "short", true)
	s.Ready(now)
	c := newHeadroomCounts(s)
	if c.offered != [2]int64{3500, 2 << 30} || c.requested != [2]int64{3000, 3 << 20} || c.overdrawn != 1 || c.pods != 2 {
		t.Errorf("offered %v, requested %v, %d overdrawn, %d pods", c.offered, c.requested, c.overdrawn, c.pods)
	}
	if want := [5]int{1, 2, 1, 1, 0}; c.states != want {
		t.Errorf("states %v, want %v", c.states, want)
	}
	if c.standing.Waiting != 1 || c.unfit != 1 {
		t.Errorf("standing %+v, unfit %d", c.standing, c.unfit)
	}
	if n := overcommitted(&s.Store().State); n != 0 {
		t.Errorf("%d nodes are over-committed", n)
	}
}
