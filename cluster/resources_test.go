package cluster_test

import (
	"fmt"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// What plugins bring to the nodes of a hall: two resources, of which pods may ask for either. The second one is now and then the node's own, or counted for the node alone.
var hallResources = []string{"a.dev/x", "b.dev/y"}

func drawHallResources(t *rapid.T, r *facts.NodeReport) {
	for _, name := range hallResources {
		if rapid.IntRange(0, 2).Draw(t, "brought") == 0 {
			continue
		}
		a := topology.Amounts{Far: int64(rapid.IntRange(0, 3).Draw(t, "far") / 3)}
		for z := range 2 {
			a.NUMA[z] = int64(rapid.IntRange(0, 3).Draw(t, "near"))
		}
		r.Resources = append(r.Resources, resource.Quantity{Name: name, Amount: a.Sum()})
		if rapid.IntRange(0, 3).Draw(t, "by NUMA node") > 0 {
			r.ByNUMANode = append(r.ByNUMANode, topology.Resource{Name: name, Amounts: a})
		}
	}
	for i := range 9 {
		if g := drawHallHeld(t); g != "" && rapid.IntRange(0, 2).Draw(t, "holds resources") == 0 {
			r.HeldResources = append(r.HeldResources, facts.HeldResources{UID: facts.UID(fmt.Sprint("p", i)), Grant: g})
		}
	}
}

func drawHallHeld(t *rapid.T) topology.ResourceGrant {
	var list []topology.Resource
	for _, name := range hallResources {
		if rapid.IntRange(0, 2).Draw(t, "held resource") == 0 {
			var a topology.Amounts
			a.NUMA[rapid.IntRange(0, 1).Draw(t, "of")] = int64(rapid.IntRange(1, 2).Draw(t, "held amount"))
			list = append(list, topology.Resource{Name: name, Amounts: a})
		}
	}
	return topology.MakeResourceGrant(list)
}

// drawHallAsks has a pod ask for some of it, near the rest or not.
func drawHallAsks(t *rapid.T, r *facts.Requirements) {
	if rapid.IntRange(0, 2).Draw(t, "asks resources") > 0 {
		return
	}
	r.GPU.Resources = topology.MakeResourceRequest(func(yield func(string, int64) bool) {
		for _, name := range hallResources {
			amount := int64(rapid.IntRange(0, 2).Draw(t, "asks"))
			if amount > 0 {
				r.Requests = append(r.Requests, resource.Quantity{Name: name, Amount: amount})
			}
			if !yield(name, amount) {
				return
			}
		}
	})
	if r.GPU.Resources != "" && r.GPU.Near == (topology.Near{}) {
		r.GPU.Near = rapid.SampledFrom([]topology.Near{{}, {Level: topology.SameNUMA}, {Level: topology.SameNUMA, Required: true}, {Level: topology.SameNUMA, Required: true, Relax: true}}).Draw(t, "near")
	}
}

// resourcesText is what plugins bring to a slot by NUMA node, and what is left of it.
func resourcesText(s *cluster.State, slot cluster.Slot) string {
	if s.Node(slot) == nil {
		return ""
	}
	v := s.View(slot)
	if v.ResourcesFree == nil {
		return ""
	}
	return fmt.Sprint(v.Resources, *v.ResourcesFree)
}

// sameInCopy holds a copy of the ledger in another process to the ledger.
func (h *hall) sameInCopy(t *rapid.T, wire *copied) {
	if _, err := wire.all(h.store); err != nil {
		t.Fatal(err)
	}
	copied := &wire.replica.Snapshot().State
	for name := range h.nodes {
		slot := h.store.Slot(name)
		if got, want := resourcesText(copied, slot), resourcesText(&h.store.State, slot); got != want {
			t.Fatalf("node %s: a copy has of what plugins bring %s, the ledger %s", name, got, want)
		}
	}
}
