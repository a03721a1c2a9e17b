package cluster

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// What plugins of a node's agent bring comes with the node's report, and counts like any other resource that the node has: it is requested, fitted and preempted for
// by its name. So the ledger adds it to what the node says of itself. What the node says itself goes first: a device plugin gives that out.
//
// For example, node n has 4 CPUs, and its report says that a plugin brings 2 of example.com/fpga. Then n counts as a node with 4 CPUs and 2 of example.com/fpga. When
// the report no longer says so, or is too old to act on, it has none. What runs there stays.

// In the same way the node's share of facts.PromisedCPU grows by what its report says may be promised a second time. Without a report it is what the node has of CPU.

// broughtNode is a node that has, or had, resources of plugins.
type broughtNode struct {
	said *facts.Node // what the node says of itself
	// names are what was brought since the node came. Pods may request more of it than there is: the plugin has gone, or brings less.
	names []string
}

// withBrought is a node with what its report says that plugins bring.
func (b *nodeBook) withBrought(n *facts.Node) *facts.Node {
	var brought []resource.Quantity
	var over facts.Overcommit
	if r := b.grants.reports[n.Name]; r != nil {
		brought, over = r.Resources, r.Overcommit
	}
	known := b.brought[n.Name]
	if len(brought) == 0 && over == (facts.Overcommit{}) && known == nil {
		return n
	}
	if known == nil {
		known = &broughtNode{}
		b.brought[n.Name] = known
	}
	known.said = n
	full := *n
	full.Allocatable = slices.Clone(n.Allocatable)
	for i := range full.Allocatable { // it is there where the scheduler is to go by it
		if q := &full.Allocatable[i]; q.Name == facts.PromisedCPU {
			q.Amount += over.Extra(q.Amount)
		}
	}
	for _, q := range brought {
		if q.Amount <= 0 || slices.ContainsFunc(n.Allocatable, func(own resource.Quantity) bool { return own.Name == q.Name && own.Amount > 0 }) {
			continue
		}
		full.Allocatable = append(full.Allocatable, q)
		if !slices.Contains(known.names, q.Name) {
			known.names = append(known.names, q.Name)
			known.names = known.names[max(0, len(known.names)-maxBrought):]
		}
	}
	return &full
}

// maxBrought bounds the names that are remembered of a node: four times what a report may have.
const maxBrought = 64

// said is what a node says of itself, without what plugins bring.
func (b *nodeBook) said(n *facts.Node) *facts.Node {
	if known := b.brought[n.Name]; known != nil {
		return known.said
	}
	return n
}

// reshape brings what may be given of a slot by NUMA node and by device in line with its node and its report, and reports whether that changed it. As with amounts, what
// the node says itself goes first.
func (b *nodeBook) reshape(slot Slot) bool {
	reshaped := b.grants.reshape(slot)
	row := b.state.rows[slot]
	if row == nil {
		return reshaped
	}
	brought := b.byNUMANode(slot)
	if slices.Equal(row.brought, brought) {
		return reshaped
	}
	row.brought, row.resources = brought, nil
	if len(brought) > 0 {
		row.resources = new(topology.ResourceFree)
	}
	return true
}

// byNUMANode is what plugins bring to a slot's node and its report counts by NUMA node.
func (b *nodeBook) byNUMANode(slot Slot) (brought []topology.Resource) {
	r := b.state.Report(slot)
	if r == nil {
		return nil
	}
	own := b.said(b.state.nodes[slot]).Allocatable
	for i := range r.ByNUMANode {
		name := r.ByNUMANode[i].Name
		if !slices.ContainsFunc(own, func(q resource.Quantity) bool { return q.Name == name && q.Amount > 0 }) && len(brought) < topology.MaxResources {
			brought = append(brought, r.ByNUMANode[i])
		}
	}
	return brought
}

// Reports reports whether a node has an agent: there is a report of it.
func (s *Store) Reports(node string) bool { return s.grants.reports[node] != nil }

// Brought is what plugins bring to a node, as its report says, sorted by name. It must not be changed.
func (s *Store) Brought(node string) []resource.Quantity {
	if r := s.grants.reports[node]; r != nil {
		return r.Resources
	}
	return nil
}

// wasBrought reports whether plugins bring a resource to a slot's node, or did.
func (b *nodeBook) wasBrought(slot Slot, kind resource.Kind) bool {
	known := b.brought[b.state.nodes[slot].Name]
	return known != nil && slices.Contains(known.names, b.state.kinds.Name(kind))
}
