package plan

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/control/target"
)

// maxSeriesBytes bounds the file that is read.
const maxSeriesBytes = 256 << 20

// planTarget are the flags of hilbert plan target.
type planTarget struct {
	series, indicator, output string
	params                    target.Params
	past                      past
}

func newPlanTarget() *cobra.Command {
	f := planTarget{params: target.Defaults(), past: newPast()}
	cmd := &cobra.Command{
		Use:   "target",
		Short: "Propose the target of a ServiceProfile from a service's own indicator",
		Long: `Read a service's own indicator, such as its latency, and measures of its pods at the same times, and propose which measure a ServiceProfile should
steer and to which target: the measure that the indicator goes with (by rank correlation, in both halves of the time), and the greatest value up to which the
indicator stays within its limit.

The file is CSV in the order of time, with a header. One column is the indicator, the columns RunDelay, CPUPressure and CPI are what an agent can steer by, and
any other column is shown as evidence. The column timestamp is not looked at. An empty field is not known.

In place of a file, --prometheus asks any server that has Prometheus's HTTP API: --indicator is then a query, and each --measure a name with a query, of one
series each. A time at which the indicator or a measure is not known is no evidence.

Nothing is changed: the answer is advice, with its evidence.`,
		Example: `  hilbert plan target --series web.csv --indicator latency --limit 0.2
  hilbert plan target --series web.csv --indicator latency --limit 0.2 -o json
  hilbert plan target --prometheus http://prometheus:9090 --limit 0.2 --since 168h --step 5m \
    --indicator 'histogram_quantile(0.99, sum by (le) (rate(web_latency_seconds_bucket[5m])))' \
    --measure 'RunDelay=avg(rate(web_run_delay_seconds_total[5m]))'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.series, "series", "", `a CSV file ("-": standard input)`)
	flags.StringVar(&f.indicator, "indicator", "indicator", "the column of the service's own indicator, or with --prometheus its query; less is better")
	f.past.flags(flags)
	flags.Float64Var(&f.params.Limit, "limit", 0, "what the indicator has to stay within")
	flags.Float64Var(&f.params.Within, "within", f.params.Within, "in which share of the rows it has to")
	flags.Float64Var(&f.params.Correlation, "correlation", f.params.Correlation, "the least rank correlation that is evidence")
	flags.IntVar(&f.params.Rows, "rows", f.params.Rows, "the least rows that are evidence")
	flags.StringVarP(&f.output, "output", "o", output.Table, "table or json")
	return cmd
}

func (f *planTarget) run(cmd *cobra.Command) (err error) {
	switch {
	case f.output != output.Table && f.output != output.JSON:
		return exitcode.Usagef("plan target: --output %q is not known; write table or json", f.output)
	case (f.series == "") == (f.past.server.URL == ""):
		return exitcode.Usagef("plan target: write --series FILE, or --prometheus URL")
	}
	if err := f.params.Validate(); err != nil {
		return exitcode.Usagef("plan target: --%v", err)
	}
	if f.past.server.URL != "" {
		series, err := f.past.series(cmd.Context(), f.indicator, time.Now())
		if err != nil {
			return err
		}
		return f.propose(cmd, series, "the answers of "+f.past.server.URL)
	}
	in := cmd.InOrStdin()
	if f.series != "-" {
		file, err := os.Open(f.series)
		if err != nil {
			return exitcode.Mark(exitcode.BadInput, err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	series, err := readSeries(io.LimitReader(in, maxSeriesBytes), f.indicator)
	if err != nil {
		return exitcode.BadInputf("read %s: %w", f.series, err)
	}
	return f.propose(cmd, series, f.series)
}

func (f *planTarget) propose(cmd *cobra.Command, series *target.Series, from string) error {
	proposal, err := target.Propose(series, &f.params)
	if err != nil {
		return exitcode.BadInputf("%s: %w", from, err)
	}
	if f.output == output.JSON {
		return output.WriteJSON(cmd.OutOrStdout(), proposal)
	}
	return writeProposal(cmd.OutOrStdout(), proposal)
}

func newSeries() *target.Series {
	return &target.Series{Measures: make(map[string][]float64), Steered: []string{spec.IndicatorRunDelay, spec.IndicatorCPUPressure, spec.IndicatorCPI}}
}

// readSeries reads the file's columns.
func readSeries(in io.Reader, indicator string) (*target.Series, error) {
	r := csv.NewReader(in)
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	at := slices.Index(header, indicator)
	if at < 0 {
		return nil, fmt.Errorf("the header has no column %s, only %q; name the indicator with --indicator", indicator, header)
	}
	s := newSeries()
	for line := 2; ; line++ {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		if len(s.Indicator) == target.MaxRows {
			return nil, fmt.Errorf("line %d: more than %d rows", line, target.MaxRows)
		}
		for i, name := range header {
			if name == "timestamp" {
				continue
			}
			value := math.NaN()
			if fields[i] != "" {
				if value, err = strconv.ParseFloat(fields[i], 64); err != nil {
					return nil, fmt.Errorf("line %d, column %s: %q is no number; leave it empty where it is not known", line, name, fields[i])
				}
			}
			if i == at {
				s.Indicator = append(s.Indicator, value)
			} else {
				s.Measures[name] = append(s.Measures[name], value)
			}
		}
	}
}

func writeProposal(w io.Writer, p *target.Proposal) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MEASURE\tROWS\tCORRELATION\tHALVES\tTARGET\tWHY")
	for i := range p.Evidence {
		e := &p.Evidence[i]
		to := "-"
		if e.Target > 0 {
			to = strconv.FormatFloat(e.Target, 'g', 3, 64)
		}
		fmt.Fprintf(table, "%s\t%d\t%.2f\t%.2f %.2f\t%s\t%s\n", e.Measure, e.Rows, e.Correlation, e.First, e.Second, to, e.Why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if p.Measure == "" {
		_, err := fmt.Fprintln(w, "\nNo target is proposed.")
		return err
	}
	_, err := fmt.Fprintf(w, "\nProposed, for spec.indicators of the ServiceProfile:\n\n- type: %s\n  target: %s\n", p.Measure, strconv.FormatFloat(p.Target, 'g', 3, 64))
	return err
}
