package experiment

import (
	"fmt"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/sim/interference"
)

func newExperimentInterference() *cobra.Command {
	o := interference.DefaultOptions()
	var out experimentOutput
	cmd := &cobra.Command{
		Use:   "interference",
		Short: "Which neighbour harms a service: naming accuracy, false alarms, seconds to relief",
		Long: `Draw mixes of services and neighbours on modelled machines; a neighbour that wants many threads, much memory bandwidth or much cache comes in half
of them. Tell harm by residuals of run delay, pressure, and the service's indicator or the cycles that its instructions take, over a baseline at the same load,
name the neighbour whose use goes with them, and act. Parameters were tuned on other mixes.`,
		Example: `  hilbert sim experiment interference --seeds 200 -o json
  hilbert sim experiment interference --seeds 1000 --report interference.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return exitcode.Mark(exitcode.Usage, err)
			}
			shown := newProgress(cmd.ErrOrStderr())
			result, err := interference.Run(cmd.Context(), &o, func(done, of int) { shown.tell(fmt.Sprintf("%d of %d mixes", done, of)) })
			if err != nil {
				return err
			}
			return out.write(cmd, result)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Seeds, "seeds", o.Seeds, "mixes that are drawn")
	flags.BoolVar(&o.Tuning, "tuning", false, "play the mixes that parameters were tuned on instead")
	out.flags(cmd)
	return cmd
}
