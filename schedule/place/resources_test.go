package place

import (
	"fmt"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// brought is what plugins bring to some of the nodes of properties.
const brought = "a.dev/x"

// reportResources has a node's agent say what a plugin brings, by NUMA node or for the node alone.
func reportResources(t *rapid.T, r *facts.NodeReport) {
	if rapid.IntRange(0, 2).Draw(t, "brings") == 0 {
		return
	}
	a := topology.Amounts{Far: int64(rapid.IntRange(0, 3).Draw(t, "far") / 3)}
	for z := range r.NUMANodes.NUMANodes {
		a.NUMA[z] = int64(rapid.IntRange(0, 3).Draw(t, "near"))
	}
	r.Resources = []resource.Quantity{{Name: brought, Amount: a.Sum()}}
	if r.NUMANodes.NUMANodes > 0 && rapid.IntRange(0, 3).Draw(t, "by NUMA node") > 0 {
		r.ByNUMANode = []topology.Resource{{Name: brought, Amounts: a}}
	}
}

// drawResources has some requirements ask for it, near the rest or not.
func drawResources(t *rapid.T, r *facts.Requirements) {
	if rapid.IntRange(0, 4).Draw(t, "asks for what a plugin brings") > 0 {
		return
	}
	amount := int64(rapid.IntRange(1, 3).Draw(t, "of it"))
	r.Requests = append(r.Requests, resource.Quantity{Name: brought, Amount: amount})
	r.GPU.Resources = topology.ResourceRequest(fmt.Sprintf("%s=%d", brought, amount))
	if r.GPU.Near == (topology.Near{}) && rapid.Bool().Draw(t, "must be near") {
		r.GPU.Near = topology.Near{Level: topology.SameNUMA, Required: true, Relax: rapid.Bool().Draw(t, "relaxed")}
	}
}
