package experiment

import (
	"fmt"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/sim/conflicts"
)

func newExperimentConflicts() *cobra.Command {
	o := conflicts.DefaultOptions()
	var strategies, scores []string
	var out experimentOutput
	cmd := &cobra.Command{
		Use:   "conflicts",
		Short: "What it costs that several schedulers share a ledger: rejected Plans and lost score, by strategy",
		Long: `Schedulers that place pods at the same time, each on a copy of the ledger that lags, and send Plans to one committer. Tells how many Plans
the committer rejects, and how much worse the chosen nodes are than the best, for each strategy of choosing: plain, seeded, runners-up, k-best,
partitions and rotating. The documentation of package sim/conflicts describes them. Time is a model: a machine's speed changes nothing. The same seed
gives the same figures.`,
		Example: `  hilbert sim experiment conflicts -o json
  hilbert sim experiment conflicts --nodes 100000 --schedulers 4,16 --lags 10ms --scores pack --report conflicts.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			o.Strategies, o.Scores = named[conflicts.Strategy](strategies), named[conflicts.Score](scores)
			if err := o.Validate(); err != nil {
				return exitcode.Mark(exitcode.Usage, err)
			}
			shown := newProgress(cmd.ErrOrStderr())
			result, err := conflicts.Run(cmd.Context(), o, func(done, of int) { shown.tell(fmt.Sprintf("%d of %d runs", done, of)) })
			if err != nil {
				return err
			}
			return out.write(cmd, result)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&o.Nodes, "nodes", o.Nodes, "nodes of the cluster, in a run for each value")
	flags.IntSliceVar(&o.Schedulers, "schedulers", o.Schedulers, "schedulers, in a run for each value")
	flags.DurationSliceVar(&o.Lags, "lags", o.Lags, "from a decision to when all others can know of it, in a run for each value")
	flags.StringSliceVar(&strategies, "strategies", unnamed(conflicts.Strategies), "how schedulers choose, in a run for each value")
	flags.StringSliceVar(&scores, "scores", unnamed(conflicts.Scores), "what they choose by: spread, pack")
	flags.IntVar(&o.Pods, "pods", o.Pods, "pods that wait")
	flags.Float64Var(&o.Fill, "fill", o.Fill, "part of the CPUs that is taken when all have places")
	flags.DurationVar(&o.Decision, "decision", o.Decision, "how long a decision takes")
	flags.DurationVar(&o.Commit, "commit", o.Commit, "how long a commit takes")
	flags.IntVar(&o.Alternatives, "alternatives", o.Alternatives, "nodes that runners-up and k-best choose from")
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "of all random choices")
	out.flags(cmd)
	return cmd
}

// named makes names of a kind of strings, unnamed strings of names.
func named[N ~string](list []string) (names []N) {
	for _, s := range list {
		names = append(names, N(s))
	}
	return names
}

func unnamed[N ~string](names []N) (list []string) {
	for _, n := range names {
		list = append(list, string(n))
	}
	return list
}
