package affinity

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes the figures for people.
func (res *Result) WriteTable(w io.Writer) error {
	if _, err := fmt.Fprintln(w, res.Workload); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i := range res.Settings {
		s := &res.Settings[i]
		fmt.Fprintln(t, "\t\t\t\t\t\t\t\t\t\t\t\t\t")
		fmt.Fprintf(t, "%s\tONE SWITCH\tBROKEN\tONE NUMA\tCARDS, ONE NUMA\tGPUS GIVEN\tOF ASKED\tCORES OF ASKED\tREFUSED, GPU\tREFUSED\tNEVER\tTHOUGH FIT\tPER SECOND\t\n", s.Name)
		for k := range s.Mean {
			o := &s.Mean[k]
			fmt.Fprintf(t, "%s\t%.2f%%\t%d\t%.2f%%\t%.2f%%\t%.2f%%\t%.2f%%\t%.2f%%\t%d\t%d\t%d\t%d\t%.0f\t\n", o.Mode, o.OneSwitchPercent, o.Broken, o.OneNUMANodePercent,
				o.CardOneNUMANodePercent, o.GPUAllocatedPercent, o.GPUServedPercent, o.CPUServedPercent, o.WaitedGPU, o.Waited, o.Never, o.RefusedThoughFit, o.PerSecond)
		}
	}
	return t.Flush()
}
