package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/inspect"
)

// How many units that come first, and how many reasons, the explanation of a queue names.
const (
	maxFirstUnits = 5
	maxReasons    = 10
)

// Queue renders how the queue stands that a view was asked for: what it has, what bounds it, who comes first, and why they wait.
func Queue(w io.Writer, v *inspect.QueueView) error {
	var b strings.Builder
	if len(v.Queues) > 0 {
		writeStanding(&b, v)
	}
	writeCounts(&b, v)
	writeReasons(&b, v)
	writeFirst(&b, v)
	fmt.Fprintf(&b, "\nAs of revision %d.\n", v.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeStanding says what the queue is, and what it has of each resource.
func writeStanding(b *strings.Builder, v *inspect.QueueView) {
	q := &v.Queues[0]
	fmt.Fprintf(b, "Queue %s", queueTitle(q))
	if q.Parent != "" {
		fmt.Fprintf(b, ", below %s", q.Parent)
	}
	fmt.Fprintf(b, ", with weight %d; what is directly below it comes in the order %s.\n", q.Weight, q.Sort)
	switch {
	case !q.Ready:
		fmt.Fprintf(b, "It gives no places: %s: %s\n", q.Reason, q.Message)
	case q.Reason != "":
		fmt.Fprintf(b, "It gives places, but: %s: %s\n", q.Reason, q.Message)
	}
	if len(v.Queues) > 1 {
		var below []string
		for i := range v.Queues {
			if v.Queues[i].Depth == q.Depth+1 {
				below = append(below, v.Queues[i].Name)
			}
		}
		fmt.Fprintf(b, "Below it, and counted with it: %s.\n", strings.Join(below, ", "))
	}
	b.WriteString("\n")
	if len(q.Amounts) == 0 {
		b.WriteString("It has nothing, and nothing is asked of it.\n\n")
		return
	}
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "RESOURCE\tUSED\tBORROWED\tGUARANTEED\tLIMIT\tFAIR\tPENDING\tNOTE")
	for i := range q.Amounts {
		a := &q.Amounts[i]
		cells := append([]string{shownResource(a.Resource)}, amountCells(a)...)
		fmt.Fprintln(t, strings.Join(append(cells, cmp.Or(amountNote(a), "-")), "\t"))
	}
	_ = t.Flush() // to a Builder
	b.WriteString("\n")
}

// amountNote says what bounds a queue in one resource, what it may take back, or has to give back.
func amountNote(a *inspect.QueueAmount) string {
	var notes []string
	if a.Limit != nil && a.Pending > 0 && resource.Add(a.Used, a.Pending) > *a.Limit {
		notes = append(notes, fmt.Sprintf("the limit leaves room for %s of those pending", bare(a.Resource, max(*a.Limit-a.Used, 0))))
	}
	if free := min(a.Guaranteed-a.Used, a.Pending); free > 0 {
		notes = append(notes, "guaranteed, and not had yet: "+bare(a.Resource, free))
	}
	if a.Borrowed > 0 {
		notes = append(notes, "queues below their guarantee may take back "+bare(a.Resource, a.Borrowed))
	}
	return strings.Join(notes, "; ")
}

// writeReasons says why units wait, the commonest reason first.
func writeReasons(b *strings.Builder, v *inspect.QueueView) {
	counts := make(map[string]int)
	for i := range v.Units {
		if u := &v.Units[i]; u.Why != "" {
			counts["wait ("+string(u.State)+"): "+u.Why]++
		}
	}
	if len(counts) == 0 {
		return
	}
	reasons := make([]string, 0, len(counts))
	for reason := range counts {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(x, y string) int { return cmp.Or(cmp.Compare(counts[y], counts[x]), strings.Compare(x, y)) })
	b.WriteString("\nWhy:\n")
	for _, reason := range reasons[:min(len(reasons), maxReasons)] {
		fmt.Fprintf(b, "  %s %s\n", inspect.Count(counts[reason], "unit has to", "units"), reason)
	}
	if more := len(reasons) - maxReasons; more > 0 {
		fmt.Fprintf(b, "  and %d more reasons\n", more)
	}
	if v.MoreUnits > 0 {
		fmt.Fprintf(b, "  not looked at: %s\n", inspect.Count(v.MoreUnits, "unit that comes later", "units that come later"))
	}
}

// writeFirst names the units whose turn comes first, each in its own queue.
func writeFirst(b *strings.Builder, v *inspect.QueueView) {
	var turn []*inspect.WaitingUnit
	for i := range v.Units {
		if v.Units[i].Position > 0 {
			turn = append(turn, &v.Units[i])
		}
	}
	if len(turn) == 0 {
		return
	}
	slices.SortStableFunc(turn, func(x, y *inspect.WaitingUnit) int { return cmp.Compare(x.Position, y.Position) })
	b.WriteString("\nFirst in turn:\n")
	for _, u := range turn[:min(len(turn), maxFirstUnits)] {
		kind, where := "pod", ""
		if u.Gang {
			kind = "unit"
		}
		if u.Queue != v.Queue {
			where = ", in queue " + u.Queue
		}
		fmt.Fprintf(b, "  %d. %s/%s%s: hilbert explain %s %s/%s says what would help\n", u.Position, u.Namespace, u.Name, where, kind, u.Namespace, u.Name)
	}
}
