package plan

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/snapshotfile"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/sim/whatif"
)

// mostMoves bounds --most.
const mostMoves = 10_000

// NewCommand returns hilbert plan.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Plan changes to a running cluster, and change nothing",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPlanMoves(), newPlanTarget())
	return cmd
}

// planMoves are the flags of hilbert plan moves.
type planMoves struct {
	from, output string
	maxLoad      int // percent
	options      whatif.MoveOptions
}

func newPlanMoves() *cobra.Command {
	f := planMoves{options: whatif.MoveOptions{Params: reschedule.Defaults()}}
	p := &f.options.Params
	p.PodCooldown, p.WorkloadCooldown = 0, 0 // a snapshot does not say who was moved before
	cmd := &cobra.Command{
		Use:   "moves",
		Short: "Say which running pods should be on other nodes, and why",
		Long: `Read a file that hilbert snapshot wrote, and say which running pods should be moved, in which order: to empty nodes, because their node broke a promise, to
make room for a pod or gang with GPUs that waits, off nodes with more load than --max-load, and to where the GPUs that are left are worth more. The scheduler itself rehearses the moves first; what does not fit its target is left out.
Gangs that would be in fewer domains of the label that they prefer if they restarted are named; they are not moved.

Moved are only pods whose owner does not refuse, that somebody would replace, and that are in no gang; not those that a disruption budget protects,
that have run for a short time only, or whose lost work is more than what is won. A file does not say who was moved before: the role controller, which
knows, also leaves pods and workloads alone for a while after a move. The annotations descheduler.alpha.kubernetes.io/evict and
prefer-no-eviction, cluster-autoscaler.kubernetes.io/safe-to-evict and karpenter.sh/do-not-disrupt are honoured.

Nothing is moved: the answer is advice. The moves of a batch need nothing of one another; those of a later one need room that an earlier one leaves.`,
		Example: `  hilbert snapshot > cluster.json
  hilbert plan moves --from cluster.json
  hilbert plan moves --from cluster.json --empty node-7 --most 50 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", `a file that hilbert snapshot wrote ("-": standard input)`)
	flags.StringArrayVar(&f.options.Empty, "empty", nil, "a node that all pods are to leave (repeatable)")
	flags.IntVar(&p.Most, "most", p.Most, "the most pods that are moved")
	flags.DurationVar(&p.MinAge, "min-age", p.MinAge, "how long a pod has run before it is moved to a better place")
	flags.DurationVar(&p.Horizon, "horizon", p.Horizon, "for how long a gain is counted against work that is lost")
	flags.IntVar(&f.maxLoad, "max-load", 0, "how many percent of its CPUs a node may use, by its agent's report, before pods leave it; 0: load is no reason")
	flags.BoolVar(&f.options.Preempt, "preempt-for-growth", false, "say, too, which pods of lower priority should be evicted where others wait to grow")
	flags.StringVarP(&f.output, "output", "o", output.Table, "table or json")
	return cmd
}

func (f *planMoves) run(cmd *cobra.Command) error {
	p := &f.options.Params
	switch {
	case f.output != output.Table && f.output != output.JSON:
		return exitcode.Usagef("plan moves: --output %q is not known; write table or json", f.output)
	case f.from == "":
		return exitcode.Usagef("plan moves: write --from FILE, which hilbert snapshot wrote")
	case p.Most < 0 || p.Most > mostMoves:
		return exitcode.Usagef("plan moves: --most %d: want 0 to %d", p.Most, mostMoves)
	case f.maxLoad < 0 || f.maxLoad > 100:
		return exitcode.Usagef("plan moves: --max-load %d: want 0 to 100", f.maxLoad)
	case p.MinAge < 0 || p.Horizon < time.Minute:
		return exitcode.Usagef("plan moves: --min-age %v, --horizon %v: want 0s or more, and 1m or more", p.MinAge, p.Horizon)
	}
	p.LoadMark = float64(f.maxLoad) / 100
	d, err := snapshotfile.Read(cmd.Context(), f.from, cmd.InOrStdin())
	if err != nil {
		return err
	}
	moves, err := whatif.NewMoves(cmd.Context(), d, &f.options)
	if err != nil {
		return exitcode.BadInputf("plan moves: %w", err)
	}
	write := moves.WriteText
	if f.output == output.JSON {
		write = func(w io.Writer) error { return output.WriteJSON(w, moves) }
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return fmt.Errorf("print the moves: %w", err)
	}
	if moves.Interrupted {
		return output.ErrInterrupted
	}
	return nil
}
