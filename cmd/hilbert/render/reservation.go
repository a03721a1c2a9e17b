package render

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"hilbert.dev/hilbert/schedule/inspect"
)

// shownPlaces is how many places the text names; JSON names all.
const shownPlaces = 40

// Reservation renders how a Reservation stands: its places, its owners that wait, and why places wait.
func Reservation(w io.Writer, a *inspect.ReservationAnswer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s keeps %s in queue %s, with priority %d", a.Namespace, a.Name, inspect.Count(len(a.Places), "place", "places"), a.Queue, a.Priority)
	switch {
	case a.Expired:
		b.WriteString("; its time is over.\n")
	case !a.Expires.IsZero():
		fmt.Fprintf(&b, ", until %s.\n", a.Expires.Format("2006-01-02T15:04:05Z07:00"))
	default:
		b.WriteString(".\n")
	}
	if !a.Settled {
		b.WriteString("The API server does not have all of this yet: do not rely on places that are not settled.\n")
	}
	writePlaces(&b, a)
	if len(a.Waiting) > 0 {
		fmt.Fprintf(&b, "\nOwners that wait: %s", strings.Join(a.Waiting[:min(len(a.Waiting), shownMembers)], ", "))
		if more := len(a.Waiting) + a.MoreWaiting - shownMembers; more > 0 {
			fmt.Fprintf(&b, ", and %d more", more)
		}
		b.WriteString("\n")
	}
	if a.Why != "" {
		fmt.Fprintf(&b, "\nWhy places wait: %s\n", a.Why)
	}
	if a.First != nil && a.First.Explanation != nil {
		writeNodes(&b, a.First, a.First.Explanation)
	}
	fmt.Fprintf(&b, "\nAs of revision %d.\n", a.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

func writePlaces(b *strings.Builder, a *inspect.ReservationAnswer) {
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "PLACE\tSTATE\tNODE\tGPUS\tPOD\tSETTLED\tWHY")
	for i := range a.Places[:min(len(a.Places), shownPlaces)] {
		p := &a.Places[i]
		settled, why := "no", p.Reason
		if p.Settled {
			settled = "yes"
		}
		if p.Message != "" {
			why += ": " + p.Message
		}
		fmt.Fprintln(t, strings.Join([]string{
			strconv.Itoa(p.Index), p.State, cmp.Or(p.Node, "-"), cmp.Or(p.GPUs, "-"), cmp.Or(p.Pod, "-"), settled, cmp.Or(why, "-"),
		}, "\t"))
	}
	_ = t.Flush() // to a Builder
	if more := len(a.Places) - shownPlaces; more > 0 {
		fmt.Fprintf(b, "and %d more places\n", more)
	}
}
