package whatif

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// maxLines is how many pods of a kind the text names.
const maxLines = 100

// WriteText renders the forecast for people.
func (f *Forecast) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "From revision %d of %s, nodes %d: %d placed, %d not", f.Revision, f.Taken.Format(time.RFC3339), f.Nodes, len(f.Placed), len(f.Unplaced))
	if n := len(f.Evicted); n > 0 {
		fmt.Fprintf(&b, ", %d evicted", n)
	}
	if n := len(f.Lost); n > 0 {
		fmt.Fprintf(&b, ", %d gone with their nodes", n)
	}
	b.WriteString(".\n")
	if f.Interrupted {
		b.WriteString("The run was ended early.\n")
	}
	f.writePlaced(&b)
	section(&b, "Evicted for pods of higher priority:", f.Evicted, func(p *PodName) string { return p.String() })
	section(&b, "Gone with their nodes:", f.Lost, func(p *LostPod) string { return p.String() + ": " + p.Why })
	section(&b, "Not placed:", f.Unplaced, func(p *UnplacedPod) string { return p.String() + ": " + p.Why })
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *Forecast) writePlaced(b *strings.Builder) {
	if len(f.Placed) == 0 {
		return
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "POD\tWAS\tNODE\tGPUS")
	for i := range f.Placed[:min(len(f.Placed), maxLines)] {
		p := &f.Placed[i]
		gpus := p.GPUs
		if gpus == "" {
			gpus = "-"
		}
		fmt.Fprintf(t, "%s/%s\t%s\t%s\t%s\n", p.Namespace, p.Name, p.Was, p.Node, gpus)
	}
	_ = t.Flush() // to a Builder
	more(b, len(f.Placed))
}

// String names the pod and what it was.
func (p *PodName) String() string { return fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, p.Was) }

func section[P any](b *strings.Builder, title string, pods []P, line func(*P) string) {
	if len(pods) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for i := range pods[:min(len(pods), maxLines)] {
		fmt.Fprintf(b, "  %s\n", line(&pods[i]))
	}
	more(b, len(pods))
}

func more(b *strings.Builder, all int) {
	if all > maxLines {
		fmt.Fprintf(b, "  and %d more (-o json has all)\n", all-maxLines)
	}
}

// WriteText renders moves for people.
func (m *Moves) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "At %s, nodes %d: moves %d, batches %d.\n", m.Taken.Format(time.RFC3339), m.Nodes, m.Count(), len(m.Batches))
	if m.Interrupted {
		b.WriteString("The rehearsal was ended early, so nothing is proposed.\n")
	}
	if m.Before.Free > 0 {
		fmt.Fprintf(&b, "Free GPUs %.2f, of that on GPUs that are held in part %.2f before and %.2f after; worth %.2f before and %.2f after.\n",
			gpus(m.Before.Free), gpus(m.Before.Broken), gpus(m.After.Broken), m.Before.Worth/1000, m.After.Worth/1000)
	}
	if m.Count() > 0 {
		b.WriteString("\n")
		t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "BATCH\tPOD\tFROM\tTO\tREASON\tWHY")
		for i, batch := range m.Batches {
			for j := range batch {
				p := &batch[j]
				fmt.Fprintf(t, "%d\t%s/%s\t%s\t%s\t%s\t%s\n", i+1, p.Namespace, p.Name, p.From, p.To, p.Reason, p.Why)
			}
		}
		_ = t.Flush() // to a Builder
	}
	section(&b, "Leave their nodes as whole gangs:", m.Gangs, func(g *GangShown) string {
		return fmt.Sprintf("%s/%s: members %d, to %s: %s", g.Namespace, g.PodGroup, len(g.Members), named(g.Nodes), g.Why)
	})
	section(&b, "Then has a place:", m.Room, func(r *RoomShown) string { return r.String() })
	section(&b, "To be evicted, so that others grow:", m.Preemptions, func(p *PreemptionShown) string {
		var names []string
		for _, v := range p.Victims {
			name := v.Namespace + "/" + v.Name
			if v.Unplaced {
				name += " (nothing that replaces it has a place)"
			}
			names = append(names, name)
		}
		return fmt.Sprintf("on %s for %s/%s: %s", p.Node, p.Namespace, p.Reservation, strings.Join(names, ", "))
	})
	section(&b, "Nearer together if they restarted now (nobody is evicted for it):", m.Restarts, func(r *RestartShown) string { return r.String() })
	section(&b, "Not moved:", m.Stay, func(s *StayShown) string { return s.Namespace + "/" + s.Name + ": " + s.Why })
	_, err := io.WriteString(w, b.String())
	return err
}

// maxNodes is how many nodes of a unit the text names.
const maxNodes = 8

// String says where the unit is after how many moves.
func (r *RoomShown) String() string {
	text := r.Unit + " on " + named(r.Nodes)
	if len(r.Domain) > 0 {
		text += ", all of " + strings.Join(r.Domain, ", ")
	}
	return text + fmt.Sprintf(", after moves %d", r.Moves)
}

// named names nodes, the first of them if they are many.
func named(nodes []string) string {
	text := strings.Join(nodes[:min(len(nodes), maxNodes)], ", ")
	if n := len(nodes) - maxNodes; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

func gpus(milli int64) float64 { return float64(milli) / 1000 }
