package cluster

import (
	"fmt"
	"strings"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Columns renders all that a Replica knows of a state, and what it counts for some classes. What only the ledger reads of reports is left out.
func Columns(s *State, classes []*Class) string {
	var b strings.Builder
	for i := range s.Slots() {
		slot := Slot(i)
		fmt.Fprintf(&b, "slot %d:", slot)
		if node := s.nodes[slot]; node != nil {
			fmt.Fprintf(&b, " %+v", *node)
		}
		for kind := range s.Kinds() {
			k := resource.Kind(kind)
			fmt.Fprintf(&b, " %s=%d/%d", s.KindName(k), s.Requested(slot, k), s.Allocatable(slot, k))
		}
		cpu, memory := s.ScoreRequested(slot)
		fmt.Fprintf(&b, " scores %d %d ports %v disks %v gpus %v %v reserved %d tallies %v", cpu, memory, s.ports[slot], s.disks[slot], s.hasGPUs[slot], s.gpus[slot], s.reserved[slot], s.counts.Tallies(slot))
		renderRow(&b, s.rows[slot])
		for _, name := range []string{"zone", facts.HostnameKey} {
			if node := s.nodes[slot]; node != nil {
				fmt.Fprintf(&b, " %s=%s", name, node.Labels[name])
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d nodes for images\n", s.images.Nodes())
	for _, class := range classes {
		renderCounts(&b, s, class)
	}
	return b.String()
}

func renderRow(b *strings.Builder, row *nodeRow) {
	if row == nil {
		return
	}
	fmt.Fprintf(b, " beyond %v %+v", row.numaNodes, row.covered)
	if r := row.report; r != nil {
		fmt.Fprintf(b, " report %+v %q %+v %+v", r.NUMANodes, r.Why, r.Headroom, r.Usage)
		if r.Devices != nil {
			fmt.Fprintf(b, " %+v", *r.Devices)
		}
	}
	if row.devices != nil {
		fmt.Fprintf(b, " devices %+v of %d %s %v %+v", *row.devices, row.shape.GPUs, row.shape.Model, row.shape.Shareable, *row.shape.Devices)
	}
}

func renderCounts(b *strings.Builder, s *State, class *Class) {
	class.Constraints.Each(func(id census.ID) {
		c := s.counts.Census(id)
		fmt.Fprintf(b, "census %d: %d in %d domains, at least %d:", id, c.Sum(), c.Domains(), c.Least())
		for slot := range s.Slots() {
			fmt.Fprintf(b, " %d", c.Count(c.Domain(Slot(slot))))
		}
		b.WriteString("\n")
	})
	for i := range class.Constraints.Soft {
		if soft := &class.Constraints.Soft[i]; soft.Census == census.None {
			fmt.Fprintf(b, "tally %d is on %d nodes\n", soft.Tally, len(s.counts.Holders(soft.Tally).Slots()))
		}
	}
}
