package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/place/explain"
)

// Node renders what the scheduler makes of a node.
func Node(w io.Writer, a *inspect.NodeAnswer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", a.Node, nodeStanding(a))
	if a.ReclaimedPods > 0 || a.Requested != (inspect.LentAmounts{}) {
		fmt.Fprintf(&b, "%d reclaimed pods request %s there", a.ReclaimedPods, lent(a.Requested))
		if a.Requested.MilliCPU > a.Offered.MilliCPU || a.Requested.Memory > a.Offered.Memory {
			b.WriteString(", which is more than the node offers: they keep running, but no further ones are placed")
		}
		b.WriteString(".\n")
	}
	writeEvictionRequests(&b, a)
	writeNUMANodes(&b, a)
	fmt.Fprintf(&b, "\nAs of revision %d.\n", a.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

// lent renders amounts: "3000m cpu and 1.5Gi memory".
func lent(l inspect.LentAmounts) string {
	return explain.AmountText(resource.NameCPU, l.MilliCPU) + " and " + explain.AmountText(resource.NameMemory, l.Memory)
}

// nodeStanding continues a sentence that begins with the node.
func nodeStanding(a *inspect.NodeAnswer) string {
	switch a.Headroom {
	case facts.HeadroomOpen.String():
		left := inspect.LentAmounts{MilliCPU: max(a.Offered.MilliCPU-a.Requested.MilliCPU, 0), Memory: max(a.Offered.Memory-a.Requested.Memory, 0)}
		return fmt.Sprintf("lends reclaimed pods %s; %s are left.", lent(a.Offered), lent(left))
	case facts.HeadroomClosed.String():
		return "is closed to new reclaimed pods: " + cmp.Or(a.Note, "it gives no reason") + "."
	case facts.HeadroomStale.String():
		return fmt.Sprintf("lends nothing: its report (%s) is too old to act on.", lent(a.Said))
	case facts.HeadroomMalformed.String():
		return "lends nothing: its report cannot be read: " + a.Note + "."
	}
	return "lends nothing: no agent reports what could be lent."
}

func writeEvictionRequests(b *strings.Builder, a *inspect.NodeAnswer) {
	if len(a.EvictionRequests) == 0 {
		return
	}
	b.WriteString("\nIt wants these pods evicted, the first most:\n")
	for _, w := range a.EvictionRequests {
		text := fmt.Sprintf("  %s/%s: %s", w.Namespace, w.Name, w.Reason)
		if w.Message != "" {
			text += ": " + w.Message
		}
		urgent := ""
		if w.Urgent {
			urgent = "urgent, "
		}
		fmt.Fprintf(b, "%s (%s%s)\n", text, urgent, w.State)
	}
}

func writeNUMANodes(b *strings.Builder, a *inspect.NodeAnswer) {
	switch {
	case a.Why != "":
		fmt.Fprintf(b, "\nNothing is promised by NUMA node: its report is %s.\n", a.Why)
	case a.Ruler == spec.ModeKubelet:
		b.WriteString("\nNothing is promised by NUMA node: the kubelet rules the CPUs.\n")
	case len(a.NUMANodes) == 0:
		return
	}
	if len(a.NUMANodes) == 0 {
		return
	}
	b.WriteString("\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NUMA\tEXCLUSIVE CPUS\tFREE\tMEMORY\tFREE") // a Builder never fails
	for _, z := range a.NUMANodes {
		closed := ""
		if z.Closed {
			closed = "\tclosed"
		}
		cells := []string{strconv.Itoa(z.NUMANode), strconv.Itoa(int(z.CPUs)), strconv.Itoa(int(z.FreeCPUs)), fmt.Sprint(z.Memory, "Mi"), fmt.Sprint(z.FreeMiB, "Mi")}
		_, _ = fmt.Fprintln(table, strings.Join(slices.Clip(cells), "\t")+closed)
	}
	_ = table.Flush()
}
