package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/place/explain"
)

// Pod renders where a pod is, or why no node takes it.
func Pod(w io.Writer, a *inspect.Answer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s %s\n", a.Namespace, a.Name, podStanding(a))
	if a.Caution != "" {
		fmt.Fprintln(&b, a.Caution)
	}
	if a.Unit != "" {
		fmt.Fprintf(&b, "It is a member of unit %s/%s: see hilbert explain unit %s/%s.\n", a.Namespace, a.Unit, a.Namespace, a.Unit)
	}
	if a.Refusal != "" {
		fmt.Fprintf(&b, "Nothing in the cluster can help it: %s.\n", a.Refusal)
	}
	if e := a.Explanation; e != nil {
		writeNodes(&b, a, e)
	}
	fmt.Fprintf(&b, "\nAs of revision %d.\n", a.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

// podStanding continues a sentence that begins with the pod.
func podStanding(a *inspect.Answer) string {
	switch {
	case a.Phase == "finished":
		return "ran to its end and holds nothing."
	case a.Phase == "bound" && a.Ours:
		return "is bound to " + podPlace(a) + "."
	case a.Phase == "bound":
		return "belongs to another scheduler and is bound to " + podPlace(a) + "."
	case a.Waiting == nil:
		return "waits."
	}
	w := a.Waiting
	text := map[inspect.WaitingState]string{
		inspect.WaitingBinding:       "is on its way to " + podPlace(a) + "; its Binding is not confirmed",
		inspect.WaitingActive:        "waits for its turn",
		inspect.WaitingBackoff:       "waits out a backoff until " + w.Until.Format("2006-01-02T15:04:05.000Z07:00"),
		inspect.WaitingUnschedulable: "waits; when it was tried, no node fitted",
		inspect.WaitingQuota:         "waits: " + w.Why,
		inspect.WaitingGathering:     "waits for other members of its unit",
		inspect.WaitingHeld:          "is held: " + w.Why,
		inspect.WaitingLeaving:       "waits for no place any more",
	}[w.State]
	if (w.State == inspect.WaitingBinding || w.State == inspect.WaitingUnschedulable) && w.Why != "" {
		text += ": " + w.Why
	}
	if w.Attempts > 0 {
		text += ", after " + strconv.Itoa(w.Attempts) + " failed attempts"
	}
	return text + "."
}

// podPlace names the node, and what the pod holds of it.
func podPlace(a *inspect.Answer) string {
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
	if a.NUMANodes != nil {
		held = append(held, "NUMA "+grantState(a.NUMANodes.Grant, a.NUMANodes.State, a.NUMANodes.Promise))
	}
	for i := range a.Resources {
		r := &a.Resources[i]
		held = append(held, r.Name+" by NUMA node "+grantState(r.Grant, r.State, r.Promise))
	}
	if len(held) == 0 {
		return a.Node
	}
	return a.Node + " (" + strings.Join(held, "; ") + ")"
}

func writeNodes(b *strings.Builder, a *inspect.Answer, e *explain.Explanation) {
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
	if a.Profile != "" && len(a.Best) > 0 {
		fmt.Fprintf(b, "Nodes are scored for it by the profile %s.\n", a.Profile)
	}
	writeBest(b, a.Best)
	if e.Feasible == 0 {
		writeMisses(b, e)
	}
}

func writeBest(b *strings.Builder, best []inspect.RankedNode) {
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

// podNUMA says in words what a pod holds of its node's NUMA nodes.
// grantState says what a pod holds by NUMA node, and what is known of it.
func grantState(grant, state, promise string) string {
	switch state {
	case inspect.NUMAMoved:
		return grant + ", moved from " + promise
	case inspect.NUMAGiven:
		return grant + ", not promised by the scheduler"
	}
	return grant + ", " + state
}
