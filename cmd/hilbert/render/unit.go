package render

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"hilbert.dev/hilbert/schedule/inspect"
)

// shownMembers is how many members the text names; JSON names inspect.MaxMembers.
const shownMembers = 40

// Unit renders where a gang stands, what is in its way and what would help.
func Unit(w io.Writer, a *inspect.UnitAnswer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s %s\n", a.Namespace, a.Name, unitStanding(a))
	if a.Known {
		fmt.Fprintf(&b, "It is in queue %s%s.\n", a.Queue, turn(a))
		for _, line := range packing(a) {
			fmt.Fprintf(&b, "%s.\n", line)
		}
	}
	if len(a.Blocks) > 0 {
		b.WriteString("\nIn its way now:\n")
		for _, block := range a.Blocks {
			fmt.Fprintf(&b, "  %s: %s\n", block.Kind, block.Message)
		}
	}
	writeChanges(&b, a)
	writeMembers(&b, a)
	fmt.Fprintf(&b, "\nAs of revision %d.\n", a.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

// unitStanding continues a sentence that begins with the unit.
func unitStanding(a *inspect.UnitAnswer) string {
	switch {
	case !a.Known:
		return fmt.Sprintf("is named by %s, but there is no such PodGroup.", inspect.Count(len(a.Members)+a.MoreMembers, "pod", "pods"))
	case !a.Running && a.Started():
		return fmt.Sprintf("starts: %s now, %d are needed.", haveOr(a.Placed, "has a place", "have places"), a.MinMember)
	case a.Running && a.Waiting > 0:
		return fmt.Sprintf("runs: %s, %d are needed to start; %s.", haveOr(a.Placed, "has a place", "have places"), a.MinMember, haveOr(a.Waiting, "waits to join", "wait to join"))
	case a.Running:
		return fmt.Sprintf("runs: %s, %d are needed to start.", haveOr(a.Placed, "has a place", "have places"), a.MinMember)
	case a.Waiting == 0 && a.Missing == 0:
		return "does not wait."
	}
	text := fmt.Sprintf("waits: %s, %d needed together", haveOr(a.Waiting, "waits", "wait"), a.Need)
	if a.Placed > 0 {
		text += fmt.Sprintf(" beside %d that %s", a.Placed, "have places")
	}
	return text + "."
}

// haveOr counts members and says what they do.
func haveOr(n int, one, many string) string { return inspect.Count(n, "member "+one, "members "+many) }

func turn(a *inspect.UnitAnswer) string {
	text := ""
	switch {
	case !a.HasTurn:
	case a.Ahead == 0:
		text = ", first in turn"
	case a.Ahead == 1:
		text = ", 1 unit is before it"
	default:
		text = fmt.Sprintf(", %d units are before it", a.Ahead)
	}
	if a.KeptNodes > 0 {
		text += fmt.Sprintf("; %s reserved for it", inspect.Count(a.KeptNodes, "node is", "nodes are"))
	}
	if len(a.KeptQueues) > 0 {
		text += "; freed quota of queue " + strings.Join(a.KeptQueues, ", ") + " is reserved for it"
	}
	return text
}

// packing says what is asked of the topology.
func packing(a *inspect.UnitAnswer) (lines []string) {
	for _, of := range []struct {
		whose string
		asked inspect.UnitTopology
	}{{"all members", a.Topology}, {"the members of each subgroup", a.Subgroups}} {
		var parts []string
		for _, p := range []struct{ label, text string }{
			{of.asked.Required, "in one %s"},
			{of.asked.Preferred, "in one %s if possible"},
			{of.asked.Spread, "spread over %s"},
			{of.asked.Uniform, "on nodes of one %s"},
		} {
			if p.label != "" {
				parts = append(parts, fmt.Sprintf(p.text, p.label))
			}
		}
		if len(parts) > 0 {
			lines = append(lines, "Asked of "+of.whose+": "+strings.Join(parts, "; "))
		}
	}
	return lines
}

func writeChanges(b *strings.Builder, a *inspect.UnitAnswer) {
	switch {
	case a.FitsNow:
		b.WriteString("\nIt would be placed if it were its turn now.\n")
	case len(a.Changes) > 0:
		b.WriteString("\nIt would be placed, if it were its turn and any one of these were so:\n")
		for i := range a.Changes {
			fmt.Fprintf(b, "  %s\n", a.Changes[i].String())
		}
	case a.HasTurn || a.Missing > 0 && a.Waiting > 0:
		b.WriteString("\nNo single change is known after which it would be placed.\n")
	}
}

func writeMembers(b *strings.Builder, a *inspect.UnitAnswer) {
	if len(a.Members) == 0 {
		return
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	subgroups, reasons := false, make(map[string]int)
	for i := range a.Members {
		subgroups = subgroups || a.Members[i].Subgroup != ""
		reasons[a.Members[i].Why]++
	}
	head, row := "MEMBER\tSTATE\tNODE", func(m *inspect.UnitMember, state, node string) string { return m.Name + "\t" + state + "\t" + node }
	if subgroups {
		head, row = "MEMBER\tSUBGROUP\tSTATE\tNODE", func(m *inspect.UnitMember, state, node string) string {
			return m.Name + "\t" + m.Subgroup + "\t" + state + "\t" + node
		}
	}
	fmt.Fprintln(t, head)
	shown := a.Members[:min(len(a.Members), shownMembers)]
	for i := range shown {
		m := &shown[i]
		state, node := m.State, m.Node
		if m.Why != "" && reasons[m.Why] == 1 { // a reason of several members is written above
			state += ": " + m.Why
		}
		if node == "" {
			node = "-"
		}
		fmt.Fprintln(t, row(m, state, node))
	}
	_ = t.Flush() // to a Builder
	if more := len(a.Members) + a.MoreMembers - len(shown); more > 0 {
		fmt.Fprintf(b, "and %d more\n", more)
	}
}
