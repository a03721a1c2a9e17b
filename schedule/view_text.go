package schedule

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"hilbert.dev/hilbert/schedule/place/explain"
)

// WriteText renders the answer for people.
func (a *Answer) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s %s\n", a.Namespace, a.Name, a.standing())
	if a.Unit != "" {
		fmt.Fprintf(&b, "It is a member of unit %s/%s: see hilbert explain unit %s/%s.\n", a.Namespace, a.Unit, a.Namespace, a.Unit)
	}
	if a.Refusal != "" {
		fmt.Fprintf(&b, "Nothing in the cluster can help it: %s.\n", a.Refusal)
	}
	if e := a.Explanation; e != nil {
		a.writeNodes(&b, e)
	}
	fmt.Fprintf(&b, "\nAs of revision %d.\n", a.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

// standing continues a sentence that begins with the pod.
func (a *Answer) standing() string {
	switch {
	case a.Phase == "finished":
		return "ran to its end and holds nothing."
	case a.Phase == "bound" && a.Ours:
		return "is bound to " + a.place() + "."
	case a.Phase == "bound":
		return "belongs to another scheduler and is bound to " + a.place() + "."
	case a.Waiting == nil:
		return "waits."
	}
	w := a.Waiting
	text := map[WaitingState]string{
		WaitingBinding:       "is on its way to " + a.place() + "; its Binding is not confirmed",
		WaitingActive:        "waits for its turn",
		WaitingBackoff:       "waits out a backoff until " + w.Until.Format("2006-01-02T15:04:05.000Z07:00"),
		WaitingUnschedulable: "waits; when it was tried, no node fitted",
		WaitingQuota:         "waits: " + w.Why,
		WaitingGathering:     "waits for other members of its unit",
		WaitingHeld:          "is held: " + w.Why,
		WaitingLeaving:       "waits for no place any more",
	}[w.State]
	if w.State == WaitingBinding && w.Why != "" {
		text += ": " + w.Why
	}
	if w.Attempts > 0 {
		text += ", after " + strconv.Itoa(w.Attempts) + " failed attempts"
	}
	return text + "."
}

func (a *Answer) place() string {
	var held []string
	switch {
	case a.GPUs != "" && a.GPUsOf != "":
		held = append(held, "GPUs "+a.GPUs+", "+a.GPUsOf)
	case a.GPUs != "":
		held = append(held, "GPUs "+a.GPUs)
	case a.GPUsOf != "":
		held = append(held, a.GPUsOf)
	}
	if a.NICs != "" {
		held = append(held, "network cards "+a.NICs)
	}
	if a.Zones != nil {
		held = append(held, a.Zones.String())
	}
	if len(held) == 0 {
		return a.Node
	}
	return a.Node + " (" + strings.Join(held, "; ") + ")"
}

func (a *Answer) writeNodes(b *strings.Builder, e *explain.Explanation) {
	b.WriteString("\n")
	switch {
	case e.Nodes == 0:
		fmt.Fprintln(b, e)
	case a.Node != "" && a.Rank > 0:
		fmt.Fprintf(b, "If it were placed now, %s would be number %d by score of the nodes that fit. ", a.Node, a.Rank)
	case a.Node != "":
		fmt.Fprintf(b, "If it were placed now, it would not fit on %s. ", a.Node)
	}
	if e.Nodes > 0 {
		fmt.Fprintln(b, e.Counts())
	}
	writeBest(b, a.Best)
	if e.Feasible == 0 {
		writeMisses(b, e)
	}
}

func writeBest(b *strings.Builder, best []RankedNode) {
	if len(best) == 0 {
		return
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "NODE\tTOTAL")
	for _, s := range best[0].Scores {
		fmt.Fprintf(t, "\t%s×%d", s.Name, s.Weight)
	}
	fmt.Fprintln(t)
	for i := range best {
		fmt.Fprintf(t, "%s\t%d", best[i].Node, best[i].Total)
		for _, s := range best[i].Scores {
			fmt.Fprintf(t, "\t%d", s.Score)
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // to a Builder
}

func writeMisses(b *strings.Builder, e *explain.Explanation) {
	if len(e.Nearest) > 0 {
		b.WriteString("\nNearest:\n")
		for i := range e.Nearest {
			fmt.Fprintf(b, "  %s\n", e.Nearest[i].String())
		}
	}
	switch {
	case e.Nodes == 0:
	case len(e.Changes) == 0:
		b.WriteString("\nNo single change is known that would make it fit.\n")
	default:
		b.WriteString("\nAny one of these would make it fit:\n")
		for _, c := range e.Changes {
			fmt.Fprintf(b, "  %s\n", c)
		}
	}
}
