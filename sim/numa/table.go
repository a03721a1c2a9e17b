package numa

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes the figures for people.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "PLACEMENT\tMEAN ms\tP50 ms\tP99 ms\tLOCAL\tSOCKET\tREMOTE\tSPLIT\tLINK\tBUSY\tREQUESTS\t")
	for i := range r.Mean {
		o := &r.Mean[i]
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.1f%%\t%.1f%%\t%.1f%%\t%.1f%%\t%.1f%%\t%.1f%%\t%d\t\n", o.Placement, o.Latency.Mean, o.Latency.P50, o.Latency.P99,
			o.Local, o.Near, o.Far, o.Split, o.Link, o.Busy, o.Requests)
	}
	fmt.Fprintln(t, "\t\t\t\t\t\t\t\t\t\t\t")
	if err := t.Flush(); err != nil {
		return err
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "LATENCY FALLS BY\t")
	for _, g := range r.Gains {
		fmt.Fprintf(t, "%s FROM %s: MEAN\tP99\t", g.Of, g.Against)
	}
	fmt.Fprintln(t, "BUSIEST\t")
	row := func(name string, gains []Gain, busy float64) {
		fmt.Fprintf(t, "%s\t", name)
		for _, g := range gains {
			fmt.Fprintf(t, "%s\t%s\t", g.Mean, g.P99)
		}
		fmt.Fprintf(t, "%.0f%%\t\n", busy)
	}
	row(fmt.Sprintf("%d seeds", r.Setup.Seeds), r.Gains, r.busiest())
	for i := range r.Sweep {
		row(r.Sweep[i].Name, r.Sweep[i].Gains, r.Sweep[i].Busy)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "published, on other machines: mean %.1f%%, p99 %.1f%%\n", r.Published.MeanPercent, r.Published.P99Percent)
	return err
}

// busiest is the highest share of busy CPUs.
func (r *Result) busiest() (busy float64) {
	for i := range r.Mean {
		busy = max(busy, r.Mean[i].Busy)
	}
	return busy
}

// String is the mean with its deviation, in percent.
func (s Spread) String() string { return fmt.Sprintf("%.1f±%.1f%%", s.Mean, s.Deviation) }
