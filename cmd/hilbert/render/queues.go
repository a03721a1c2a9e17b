package render

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"hilbert.dev/hilbert/schedule/inspect"
)

// Queues renders the queues, and the first of what waits.
func Queues(w io.Writer, v *inspect.QueueView, o Options) error {
	var b strings.Builder
	if len(v.Queues) > 0 {
		writeTree(&b, v, o)
	}
	total := writeCounts(&b, v)
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	more := total - len(v.Pods)
	switch {
	case len(v.Units) > 0:
		more = v.MoreUnits
		b.WriteString("\n")
		writeUnits(t, v)
	case len(v.Pods) > 0:
		b.WriteString("\n")
		fmt.Fprintln(t, "POD\tPRIORITY\tCREATED\tSTATE")
		for i := range v.Pods {
			p := &v.Pods[i]
			fmt.Fprintf(t, "%s/%s\t%d\t%s\t%s%s\n", p.Namespace, p.Name, p.Priority, p.Created.Format(time.RFC3339), waitingState(p.State, p.Placeholder), waitingDetail(p))
		}
	}
	_ = t.Flush() // to a Builder
	if more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	fmt.Fprintf(&b, "\nAs of revision %d.\n", v.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCounts says how many pods wait, and how.
func writeCounts(b *strings.Builder, v *inspect.QueueView) (total int) {
	var parts []string
	for _, state := range inspect.WaitingStates {
		if n := v.Counts[state]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if total == 1 {
		b.WriteString("1 pod waits")
	} else {
		fmt.Fprintf(b, "%d pods wait", total)
	}
	if total > 0 {
		fmt.Fprintf(b, ": %s", strings.Join(parts, ", "))
	}
	b.WriteString(".\n")
	return total
}

// writeUnits lists units. What only queues make interesting is left out where there are none.
func writeUnits(t io.Writer, v *inspect.QueueView) {
	queues := len(v.Queues) > 0
	head := []string{"#", "UNIT", "PODS", "PRIORITY", "CREATED", "STATE"}
	if queues {
		head = slices.Insert(head, 1, "QUEUE")
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for i := range v.Units {
		u := &v.Units[i]
		turn := "-"
		if u.Position > 0 {
			turn = strconv.Itoa(u.Position)
		}
		row := []string{turn, u.Namespace + "/" + u.Name, unitPods(u), strconv.Itoa(int(u.Priority)), u.Created.Format(time.RFC3339), unitDetail(u)}
		if queues {
			row = slices.Insert(row, 1, u.Queue)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
}

// unitPods tells how many pods a row stands for.
func unitPods(u *inspect.WaitingUnit) string {
	switch {
	case !u.Gang:
		return "1"
	case u.State == inspect.WaitingBinding:
		return fmt.Sprintf("%d of gang", u.Waiting)
	}
	text := fmt.Sprintf("%d of gang, %d needed", u.Waiting, u.Need)
	if u.Placed > 0 {
		text += fmt.Sprintf(", %d placed", u.Placed)
	}
	return text
}

func unitDetail(u *inspect.WaitingUnit) string {
	w := inspect.Waiting{Until: u.Until, Node: u.Node, Attempts: u.Attempts, Why: u.Why}
	if u.Gang && u.Waiting > 1 {
		w.Node = "" // there may be several
	}
	text := waitingState(u.State, u.Placeholder) + waitingDetail(&w)
	if u.KeptNodes > 0 {
		text += fmt.Sprintf("; %s reserved for it", inspect.Count(u.KeptNodes, "node is", "nodes are"))
	}
	if len(u.KeptQueues) > 0 {
		text += "; freed quota of queue " + strings.Join(u.KeptQueues, ", ") + " is reserved for it"
	}
	return text
}

// waitingState is how something waits; of a place of a Reservation it says that it is one.
func waitingState(state inspect.WaitingState, placeholder bool) string {
	if placeholder {
		return string(state) + " (place of a reservation)"
	}
	return string(state)
}

func waitingDetail(w *inspect.Waiting) string {
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
