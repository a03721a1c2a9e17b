package colocation

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// WriteTable writes the figures for people.
func (res *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "VARIANT\tNODES\tBUSY\tSERVICES\tJOBS\tLENT\tMISSED\tEVICTED\tREPEATED\tJOBS DONE\tLOST\t")
	row := func(name string, o *Outcome) {
		fmt.Fprintf(t, "%s\t%d\t%.1f%%\t%.1f%%\t%.1f%%\t%.1f%%\t%.3f%%\t%d\t%d\t%d\t%.1f%%\t\n", name, o.Nodes, o.UtilisationPercent, o.OnlinePercent,
			o.OfflinePercent, o.LentPercent, o.SLOMissPercent, o.Evictions, o.RepeatEvictions, o.JobsDone, o.LostPercent)
	}
	for _, v := range res.Variants {
		row(v.Name, v)
	}
	if res.Together != nil {
		row("all rise together", res.Together.Outcome)
	}
	for _, name := range slices.Sorted(maps.Keys(res.Ablations)) {
		row(name, res.Ablations[name])
	}
	for i := range res.Sweep {
		s := &res.Sweep[i]
		row(fmt.Sprintf("neighbours ×%g", s.Factor), s.Hilbert)
		row(fmt.Sprintf("naive ×%g", s.Factor), s.Naive)
	}
	return t.Flush()
}
