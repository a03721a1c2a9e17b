package experiment

import (
	"fmt"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/sim/tide"
	"hilbert.dev/hilbert/sim/trace"
)

func newExperimentTide() *cobra.Command {
	o := tide.DefaultOptions()
	var files []string
	var out experimentOutput
	cmd := &cobra.Command{
		Use:   "tide",
		Short: "Capacity when a load rises: HPA alone, with forecasts and planned peaks, lending alone, and nodes that change hands",
		Long: `Play recorded loads against ways to have capacity: upstream's HPA algorithm on the live load; the same on the greatest of live load, a
forecast that is trusted only while it beats "same as now", and planned peaks; a constant number of replicas whose idle part is lent; and nodes
that change hands as a TidePool's do, by what HPA alone asks for, with forecasts and planned peaks of replicas and nodes, or by an oracle that knows
the load to come: what it misses no forecast can keep. The last quarter of each series is held out and judged: minutes until capacity is there,
time without it and its causes, evictions and lost work of offline jobs.`,
		Example: `  hilbert sim experiment tide --series taxi_trips.csv,elb_request_count.csv -o json
  hilbert sim experiment tide --series qps.tar.gz --start 5m --peak "CRON_TZ=Asia/Shanghai 0 20 * * *" --report tide.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return exitcode.Mark(exitcode.Usage, err)
			}
			if len(files) == 0 {
				return exitcode.Usagef("sim experiment tide: write --series FILE, a load (timestamp,value)")
			}
			var list []*trace.Series
			for _, file := range files {
				s, err := trace.LoadSeries(file)
				if err != nil {
					return exitcode.Mark(exitcode.BadInput, err)
				}
				list = append(list, s)
			}
			shown := newProgress(cmd.ErrOrStderr())
			result, err := tide.Run(cmd.Context(), list, &o, func(done, of int) { shown.tell(fmt.Sprintf("%d of %d runs", done, of)) })
			if err != nil {
				return err
			}
			return out.write(cmd, result)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&files, "series", nil, "loads (CSV, or packed): timestamp, value; or timestamp_anon, value; or avg_cpu at steps of five minutes; several with commas, or the flag again")
	flags.IntVar(&o.Replicas, "replicas", o.Replicas, "replicas that the most load before what is judged needs")
	flags.Float64Var(&o.Target, "target", o.Target, "share of a replica that HPA aims at")
	flags.Float64Var(&o.Limit, "limit", o.Limit, "share of a replica beyond which capacity is missing")
	flags.DurationVar(&o.Start, "start", o.Start, "how long a replica takes until it serves")
	flags.DurationVar(&o.MetricAge, "metric-age", o.MetricAge, "how old the metric is that HPA sees")
	flags.DurationVar(&o.Job, "job", o.Job, "mean length of offline jobs")
	flags.IntVar(&o.PodsPerNode, "pods-per-node", o.PodsPerNode, "replicas or jobs that a node has room for, where nodes change hands")
	flags.DurationVar(&o.Change, "change", o.Change, "how long a node that changes hands takes until it takes pods of its new side")
	flags.IntVar(&o.WorkloadTimeLossPermille, "workload-time-loss-permille", o.WorkloadTimeLossPermille, "how much of their time replicas may lose to moves off nodes that have changed hands, in thousandths; 1000: all of it")
	flags.Float64Var(&o.Quantile, "quantile", o.Quantile, "of how many rises forecasts want capacity to be there, for example nine of ten with 0.9")
	flags.BoolVar(&o.Rises, "rises", o.Rises, "forecast a load without a period by what it rises by")
	flags.StringVar(&o.Peak, "peak", o.Peak, "when planned peaks begin: a cron expression, with CRON_TZ=ZONE before it if it has a time zone; empty: none")
	flags.DurationVar(&o.PeakLength, "peak-length", o.PeakLength, "how long a planned peak takes")
	flags.Float64Var(&o.PeakFactor, "peak-factor", o.PeakFactor, "how many times the most load before what is judged a planned peak is")
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "of the lengths of jobs")
	out.flags(cmd)
	return cmd
}
