package conflicts

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Result is the whole experiment.
type Result struct {
	Setup    Options   `json:"setup"`
	Outcomes []Outcome `json:"outcomes"`
}

// Run plays every combination. progress, which may be nil, is told before each how many of how many are done.
func Run(ctx context.Context, o Options, progress func(done, of int)) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	res := &Result{Setup: o}
	list := o.combinations()
	var w *world
	for i, out := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(i, len(list))
		}
		if w == nil || w.nodes != out.Nodes {
			w = newWorld(out.Nodes, o.Pods, o.Fill, o.Seed)
		}
		out, err := w.play(&o, out)
		if err != nil {
			return nil, err
		}
		res.Outcomes = append(res.Outcomes, out)
	}
	return res, nil
}

// combinations are the runs, nodes changing slowest. One scheduler is played once for each lag: it has no others to conflict with, whatever its strategy.
func (o *Options) combinations() (list []Outcome) {
	for _, nodes := range o.Nodes {
		for _, score := range o.Scores {
			for _, lag := range o.Lags {
				for _, n := range o.Schedulers {
					strategies := o.Strategies
					if n == 1 {
						strategies = []Strategy{Plain}
					}
					for _, s := range strategies {
						list = append(list, Outcome{Nodes: nodes, Schedulers: n, Lag: lag, Strategy: s, Score: score})
					}
				}
			}
		}
	}
	return list
}

// WriteTable writes the figures for people.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "NODES\tSCORE\tLAG\tSCHEDULERS\tSTRATEGY\tREJECTED\tBEST\tSCORE LOST\tRUNNERS-UP\tPLACED/s\tUNPLACED\t")
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%s\t%.1f%%\t%.1f%%\t%.2f\t%.1f%%\t%.0f\t%d\t\n", o.Nodes, o.Score, o.Lag, o.Schedulers, o.Strategy,
			100*o.Rejected, 100*o.Best, o.ScoreLost, 100*o.RunnersUp, o.PerSecond, o.Unplaced)
	}
	return t.Flush()
}

// of are the outcomes of a strategy under some circumstances, by the number of schedulers.
func (r *Result) of(nodes int, score Score, lag time.Duration, s Strategy) (list []Outcome) {
	for _, o := range r.Outcomes {
		if o.Nodes == nodes && o.Score == score && o.Lag == lag && (o.Strategy == s || o.Schedulers == 1) {
			list = append(list, o)
		}
	}
	return list
}
