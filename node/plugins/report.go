package plugins

import (
	"maps"
	"slices"
	"strconv"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/topology"
)

// What the report says of resources that plugins bring. The scheduler's ledger has its amounts by NUMA node from here, and who holds what of them.

// Status is what the report says: a resource for each that a plugin serves, and for each that pods hold.
func (c *Controller) Status() (out []spec.NodeResource) {
	resources := make(map[string]*pluginState)
	for _, p := range c.plugins {
		if p.client != nil && p.client.Info.Resource != "" {
			resources[p.client.Info.Resource] = p
		}
	}
	held := make(map[string]*topology.Amounts)
	for _, h := range c.book.All() {
		if held[h.Resource] == nil {
			held[h.Resource] = &topology.Amounts{}
		}
		held[h.Resource].Add(&h.Amounts)
		if _, known := resources[h.Resource]; !known {
			resources[h.Resource] = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		p, r := resources[name], spec.NodeResource{Name: name}
		has := held[name]
		if has == nil {
			has = &topology.Amounts{}
		}
		r.Amount = has.Sum()
		switch {
		case p == nil:
			r.Message = "no plugin serves it"
		case !p.serves:
			r.Plugin, r.Message = p.name, report.Message(p.why)
		default:
			r.Plugin = p.name
			capacity, _ := c.book.Capacity(name)
			r.Amount, r.NUMANodes = max(capacity.Sum(), has.Sum()), c.numaAmounts(&capacity, has)
		}
		r.Allocations = c.allocations(name)
		out = append(out, r)
	}
	return out
}

func (c *Controller) numaAmounts(capacity, held *topology.Amounts) (out []spec.NUMAAmount) {
	for i := range c.node.Machine.NUMA {
		if i < topology.MaxNUMANodes && (capacity.NUMA[i] > 0 || held.NUMA[i] > 0) {
			out = append(out, spec.NUMAAmount{Name: strconv.Itoa(c.node.Machine.NUMA[i].ID), Amount: capacity.NUMA[i], Held: held.NUMA[i]})
		}
	}
	return out
}

// allocations are what pods hold of a resource.
func (c *Controller) allocations(resource string) (out []spec.ResourceAllocation) {
	for _, h := range c.book.Of(resource) {
		a := spec.ResourceAllocation{PodRef: h.Pod, Far: h.Amounts.Far}
		for i := range c.node.Machine.NUMA {
			if i < topology.MaxNUMANodes && h.Amounts.NUMA[i] > 0 {
				a.NUMANodes = append(a.NUMANodes, spec.NUMAPart{Name: strconv.Itoa(c.node.Machine.NUMA[i].ID), Amount: h.Amounts.NUMA[i]})
			}
		}
		out = append(out, a)
	}
	return out
}
