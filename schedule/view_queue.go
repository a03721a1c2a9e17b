package schedule

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"hilbert.dev/hilbert/cluster"
)

// QueueView is who waits, as people look at it.
type QueueView struct {
	Revision cluster.Revision `json:"revision"`
	// Counts of all pods, in every state; Pods are the first of them.
	Counts map[WaitingState]int `json:"counts"`
	Pods   []Waiting            `json:"pods"`
}

// View returns the first pods of the queue, at most limit.
func (d *Dump) View(limit int) *QueueView {
	counts := d.Counts()
	return &QueueView{Revision: d.Ledger.Revision, Counts: counts, Pods: d.Queue[:min(limit, len(d.Queue))]}
}

// WriteText renders the view for people.
func (v *QueueView) WriteText(w io.Writer) error {
	var b strings.Builder
	total := 0
	var parts []string
	for _, state := range waitingStates {
		if n := v.Counts[state]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if total == 1 {
		b.WriteString("1 pod waits")
	} else {
		fmt.Fprintf(&b, "%d pods wait", total)
	}
	if total > 0 {
		fmt.Fprintf(&b, ": %s", strings.Join(parts, ", "))
	}
	b.WriteString(".\n")
	if len(v.Pods) > 0 {
		b.WriteString("\n")
		t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "POD\tPRIORITY\tCREATED\tSTATE")
		for i := range v.Pods {
			p := &v.Pods[i]
			fmt.Fprintf(t, "%s/%s\t%d\t%s\t%s%s\n", p.Namespace, p.Name, p.Priority, p.Created.Format(time.RFC3339), p.State, p.detail())
		}
		_ = t.Flush() // to a Builder
	}
	if more := total - len(v.Pods); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	fmt.Fprintf(&b, "\nAs of revision %d.\n", v.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

func (w *Waiting) detail() string {
	text := ""
	if !w.Until.IsZero() {
		text += " until " + w.Until.Format(time.RFC3339)
	}
	if w.Node != "" {
		text += " to " + w.Node
	}
	if w.Attempts > 0 {
		text += fmt.Sprintf(" (%d failed attempts)", w.Attempts)
	}
	if w.Why != "" {
		text += ": " + w.Why
	}
	return text
}
