package top

import (
	"slices"
	"strconv"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/kube/parse"
)

// lendingRow is what a node lends to reclaimed pods, by its own words.
type lendingRow struct {
	Headroom spec.ReclaimedAmounts `json:"headroom"`
	Lent     spec.ReclaimedAmounts `json:"lent"`
	// Suppression is how hard reclaimed pods are held down.
	Suppression string `json:"suppression"`
	Closed      string `json:"closed,omitempty"`
	// Stale: older than scheduling.reclaimed.staleAfter is by default, so that the scheduler offers none of it.
	Stale bool `json:"stale,omitempty"`
	// Evictions is how many pods the node wants evicted.
	Evictions int `json:"evictions,omitempty"`
	// Problem is why the scheduler cannot read it.
	Problem string `json:"problem,omitempty"`
}

// lendingOf reads what a node lends; nil: its agent does not say.
func lendingOf(c *v1alpha1.CustomNodeResource, s seen) *lendingRow {
	said := c.Status.Colocation
	if said == nil {
		return nil
	}
	row := &lendingRow{
		Headroom: said.Headroom, Lent: said.Lent, Suppression: said.Suppression, Closed: said.Closed, Evictions: len(said.Evictions),
		Stale: s.ObservedAt == nil || s.age >= spec.Default().Scheduling.Reclaimed.StaleAfter.D(),
	}
	if _, _, err := parse.NodeHeadroom(said); err != nil {
		row.Problem = err.Error()
	}
	return row
}

// mark says in a word why the headroom is not to be had; empty: it is.
func (l *lendingRow) mark() string {
	switch {
	case l.Problem != "":
		return " MALFORMED"
	case l.Stale:
		return " STALE"
	case l.Closed != "":
		return " CLOSED"
	}
	return ""
}

// lentText renders amounts in a cell: "2.5/8Gi".
func lentText(a spec.ReclaimedAmounts) string {
	return output.Cores(a.MilliCPU) + "/" + output.Memory(a.MemoryMiB)
}

// lends reports whether any node says what it lends: else there is nothing to show of it.
func (v *nodesView) lends() bool {
	return slices.ContainsFunc(v.Nodes, func(n nodeRow) bool { return n.Lending != nil })
}

// lendingHeads are the columns of lending; they stand before the last column.
var lendingHeads = []string{"HEADROOM", "LENT", "HELD DOWN", "EVICTIONS"}

// lendingCells are what is in them on a node's first line, and, with a NUMA node, that NUMA node's headroom.
func (n *nodeRow) lendingCells(first bool, numa *numaRow) []string {
	cells := []string{"-", "", "", ""}
	if n.Lending == nil {
		if !first {
			cells[0] = ""
		}
		return cells
	}
	switch {
	case numa != nil && numa.Headroom != nil:
		cells[0] = lentText(*numa.Headroom) + n.Lending.mark()
	case first:
		cells[0] = lentText(n.Lending.Headroom) + n.Lending.mark()
	}
	if first {
		cells[1], cells[2], cells[3] = lentText(n.Lending.Lent), output.OrDash(n.Lending.Suppression), strconv.Itoa(n.Lending.Evictions)
	}
	return cells
}

// before puts cells before the last one of a line.
func before(line, cells []string) []string { return slices.Insert(line, len(line)-1, cells...) }
