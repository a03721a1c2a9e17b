package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// Reservation reads a Reservation: what each place asks for as of a pod, and count=N, expires=SECONDS, for=(label=value), for-controller=kind/name, for-unit=NAME,
// moves=UID, problem=REASON, and what the status says as told=(index:state:node).
func Reservation(t testing.TB, d *datadriven.TestData) *facts.Reservation {
	t.Helper()
	r := &facts.Reservation{Count: 1}
	own := func(o facts.ReservationOwner) { r.Owners = append(r.Owners, o) }
	var rest []datadriven.CmdArg
	for _, arg := range d.CmdArgs {
		value := first(arg.Vals)
		switch arg.Key {
		case "count":
			r.Count = int(scaled(t, d, value, 1))
		case "expires":
			r.Expires = scaled(t, d, value, 1e9)
		case "for":
			key, label, _ := strings.Cut(value, "=")
			own(facts.ReservationOwner{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{{Key: key, Operator: facts.In, Values: []string{label}}}}})
		case "for-controller":
			kind, name, _ := strings.Cut(value, "/")
			own(facts.ReservationOwner{Controller: facts.Controller{Kind: kind, Name: name}})
		case "for-unit":
			own(facts.ReservationOwner{Unit: value})
		case "moves":
			r.Moves = facts.UID(value)
		case "problem":
			r.Problem = facts.Condition{Reason: value}
		case "told":
			for _, text := range arg.Vals {
				r.Places = append(r.Places, told(t, d, text))
			}
		default:
			rest = append(rest, arg)
		}
	}
	shortened := *d
	shortened.CmdArgs = rest
	pod := Pod(t, &shortened)
	r.UID, r.Namespace, r.Name, r.Created, r.Template = pod.UID, pod.Namespace, pod.Name, pod.Created, pod
	return r
}

func told(t testing.TB, d *datadriven.TestData, text string) facts.Place {
	t.Helper()
	parts := append(strings.Split(text, ":"), "", "")
	index, err := strconv.Atoi(parts[0])
	if err != nil {
		d.Fatalf(t, "told: %v", err)
	}
	for state := range facts.PlaceLost + 1 {
		if state.String() == parts[1] {
			return facts.Place{Index: index, State: state, Node: parts[2]}
		}
	}
	d.Fatalf(t, "told: %q is no state", parts[1])
	return facts.Place{}
}

// Reservations renders how all Reservations stand.
func Reservations(s *cluster.Store) string {
	var lines []string
	s.Placeholders().Each(func(set *cluster.PlaceholderSet) {
		v := set.View()
		var b strings.Builder
		fmt.Fprintf(&b, "%s:", v.UID)
		for _, p := range v.Places {
			fmt.Fprintf(&b, " %s", p.State)
			if p.Node != "" {
				b.WriteString(" on " + p.Node)
			}
			if p.Pod != "" {
				b.WriteString(" by " + p.Pod)
			}
			if p.Reason != "" {
				fmt.Fprintf(&b, " (%s: %s)", p.Reason, p.Message)
			}
			if p.Settled && p.State != facts.PlaceWaiting {
				b.WriteString(" settled")
			}
			b.WriteString(";")
		}
		if v.Why != (facts.Condition{}) {
			fmt.Fprintf(&b, " %s: %s", v.Why.Reason, v.Why.Message)
		}
		lines = append(lines, strings.TrimSuffix(b.String(), ";")+"\n")
	})
	slices.Sort(lines)
	return strings.Join(lines, "")
}
