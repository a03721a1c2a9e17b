package experiment

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/sim/affinity"
	"hilbert.dev/hilbert/sim/trace"
)

// dlrmFile is where the folder of traces has the instances.
const dlrmFile = "disaggregated_DLRM_trace.csv"

// dlrmExperiment are the flags of hilbert sim experiment dlrm.
type dlrmExperiment struct {
	traces, pods string
	modes        []string
	options      affinity.Options
	out          experimentOutput
}

func newExperimentDLRM() *cobra.Command {
	f := dlrmExperiment{options: affinity.DefaultOptions()}
	for _, m := range f.options.Modes {
		f.modes = append(f.modes, m.String())
	}
	o := &f.options
	cmd := &cobra.Command{
		Use:   "dlrm",
		Short: "GPUs and their network cards under one PCIe switch: the DLRM-2025 trace, blind and aware",
		Long: `Replay the instances of the DLRM-2025 trace on modelled machines (8 GPUs and 4 cards on 4 switches and 2 sockets): with devices
chosen blindly, and by Hilbert's allocator with one switch required or preferred. Report the share with GPU and card under one switch, what that
costs in GPUs, and whether any refused instance would fit by brute force.`,
		Example: `  hilbert sim experiment dlrm --traces traces -o json
  hilbert sim experiment dlrm --pods disaggregated_DLRM_trace.csv --modes blind,required --seeds 3 --spare 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.traces, "traces", "", "folder that holds dlrm2025/"+dlrmFile)
	flags.StringVar(&f.pods, "pods", "", "the instances themselves (CSV), instead of --traces")
	flags.StringSliceVar(&f.modes, "modes", f.modes, "ways to choose devices")
	flags.Float64SliceVar(&o.Spare, "spare", o.Spare, "sizes of the cluster: percent of machines beyond what the peak needs")
	flags.Float64Var(&o.Fill, "fill", o.Fill, "instances with GPUs come in random order and stay, until this much of the GPUs is asked for; 0: leave that out")
	flags.Float64SliceVar(&o.Demand, "rdma", o.Demand, "how many times the trace's RDMA shares --fill is done with")
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "first seed of all random choices")
	flags.IntVar(&o.Seeds, "seeds", o.Seeds, "run this many seeds")
	f.out.flags(cmd)
	return cmd
}

func (f *dlrmExperiment) run(cmd *cobra.Command) error {
	if err := f.out.validate(); err != nil {
		return err
	}
	path := f.pods
	switch {
	case (f.traces == "") == (f.pods == ""):
		return exitcode.Usagef("sim experiment dlrm: write either --traces DIR or --pods FILE")
	case f.traces != "":
		path = filepath.Join(f.traces, "dlrm2025", dlrmFile)
	}
	f.options.Modes = nil
	for _, name := range f.modes {
		mode, err := affinity.ParseMode(name)
		if err != nil {
			return err
		}
		f.options.Modes = append(f.options.Modes, mode)
	}
	w, err := trace.LoadDLRM(path)
	if err != nil {
		return err
	}
	f.options.Wall = processTime()
	result, err := affinity.Run(cmd.Context(), w, f.options)
	if err != nil {
		return err
	}
	return f.out.write(cmd, result)
}
