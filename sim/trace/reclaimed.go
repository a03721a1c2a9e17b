package trace

import (
	"math/rand/v2"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

const permille = 1000

// Headroom of a node at the beginning, in percent of what is allocatable.
const (
	leastLent = 10
	mostLent  = 60
)

// lend lets the agents of all nodes that have one lend; without NUMA nodes every node has one.
func (s Synthetic) lend(w *Workload, random *rand.Rand) {
	if len(w.Reports) == 0 {
		for _, n := range w.Nodes {
			w.Reports = append(w.Reports, facts.NodeReported{
				Node: n.Name, Report: &facts.NodeReport{NUMANodes: topology.NUMAShape{Ruler: topology.RulerAgent, Threads: numaThreads}},
			})
		}
	}
	byName := make(map[string]*facts.Node, len(w.Nodes))
	for _, n := range w.Nodes {
		byName[n.Name] = n
	}
	for _, r := range w.Reports {
		n, percent := byName[r.Node], leastLent+int64(random.IntN(mostLent-leastLent+1))
		r.Report.Headroom = facts.Headroom{
			State:    facts.HeadroomOpen,
			MilliCPU: amount(n.Allocatable, resource.NameCPU) * percent / 100, Memory: amount(n.Allocatable, resource.NameMemory) * percent / 100,
		}
	}
}

// reclaim makes so many permille of the pods, of those that are not dedicated, reclaimed: they ask for the same, of what nodes lend.
// The pods of a PodGroup are all of one level, as those of a job are.
func (s Synthetic) reclaim(w *Workload, random *rand.Rand) {
	twins := make(map[*facts.Requirements]*facts.Requirements)
	units := make(map[string]bool)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		chosen := random.IntN(permille) < s.Reclaimed
		if t.Unit != "" {
			key := w.Identities[t.Group].Namespace + "/" + t.Unit
			if _, known := units[key]; !known {
				units[key] = chosen
			}
			chosen = units[key]
		}
		if !chosen || !t.Requirements.NUMANodes.IsZero() {
			continue
		}
		if twins[t.Requirements] == nil {
			twins[t.Requirements] = reclaimedTwin(t.Requirements)
		}
		t.Requirements = twins[t.Requirements]
	}
}

// reclaimedTwin asks nodes to lend what another requests of them.
func reclaimedTwin(of *facts.Requirements) *facts.Requirements {
	r := *of
	r.Reclaimed, r.GPU = true, topology.Request{}
	r.Requests = []resource.Quantity{
		{Name: spec.ResourceReclaimedCPU, Amount: amount(of.Requests, resource.NameCPU)},
		{Name: spec.ResourceReclaimedMemory, Amount: amount(of.Requests, resource.NameMemory)},
	}
	return scored(&r)
}
