package experiment

import (
	"fmt"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/sim/recommend"
	"hilbert.dev/hilbert/sim/trace"
)

func newExperimentRecommend() *cobra.Command {
	o := recommend.DefaultOptions()
	var use string
	var gib float64
	var out experimentOutput
	cmd := &cobra.Command{
		Use:   "recommend",
		Short: "What pods should ask for: slack, would-be OOMs and throttled time of Hilbert, the Vertical Pod Autoscaler and the most so far",
		Long: `Play recommended requests against recorded use of jobs, in percent of what they asked for. The first day of each job is for learning; on each
later day a policy has to say what the pod gets before it sees what was used. Half of the jobs, by a hash of their names, were used to tune
parameters: the figures are of the other half.`,
		Example: `  hilbert sim experiment recommend --use use.csv.gz -o json
  hilbert sim experiment recommend --use use.csv.gz --cpu 1 --memory 2 --report recommend.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			o.Request.Memory = gib * (1 << 30)
			if err := o.Validate(); err != nil {
				return exitcode.Mark(exitcode.Usage, err)
			}
			if use == "" {
				return exitcode.Usagef("sim experiment recommend: write --use FILE, the use of jobs (job,day,resource,t0,t1 and so on)")
			}
			jobs, err := trace.LoadJobs(use)
			if err != nil {
				return exitcode.Mark(exitcode.BadInput, err)
			}
			shown := newProgress(cmd.ErrOrStderr())
			result, err := recommend.Run(cmd.Context(), jobs, &o, func(done, of int) { shown.tell(fmt.Sprintf("%d of %d jobs", done, of)) })
			if err != nil {
				return err
			}
			return out.write(cmd, result)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&use, "use", "", "use of jobs in percent of what they asked for (CSV, or packed): job, day, resource (cpu or memory), t0, t1, and so on over the day")
	flags.Float64Var(&o.Request.CPU, "cpu", o.Request.CPU, "cores that 100 percent are")
	flags.Float64Var(&gib, "memory", o.Request.Memory/(1<<30), "GiB that 100 percent are")
	flags.BoolVar(&o.Tuning, "tuning", false, "judge the half of the jobs that parameters were tuned on instead")
	out.flags(cmd)
	return cmd
}
