package experiment

import (
	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/sim/numa"
)

func newExperimentNUMA() *cobra.Command {
	o := numa.DefaultOptions()
	var out experimentOutput
	cmd := &cobra.Command{
		Use:   "numa",
		Short: "What a service gains from cores and memory in the same NUMA nodes: a queueing model",
		Long: `Servers whose work waits for memory, on modelled machines: placed as a stock kernel and kubelet do, and in the NUMA nodes that Hilbert's
allocator chooses, with shared CPUs and with cores of their own. Tells latencies, how much less they are, and how that moves with each parameter
of the model. The model stands in the documentation of package sim/numa. The same seed gives the same figures on one architecture.`,
		Example: `  hilbert sim experiment numa --seeds 10 -o json
  hilbert sim experiment numa --seeds 3 --sweep-seeds 0 --load 0.4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			result, err := numa.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return out.write(cmd, result)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "first seed of all random choices")
	flags.IntVar(&o.Seeds, "seeds", o.Seeds, "run this many seeds")
	flags.IntVar(&o.Sweep, "sweep-seeds", o.Sweep, "seeds for each other value of each parameter; 0: no sweep")
	flags.IntVar(&o.Nodes, "nodes", o.Nodes, "machines of a seed")
	flags.Float64Var(&o.Seconds, "seconds", o.Seconds, "duration of the requests")
	flags.Float64Var(&o.Params.Load, "load", o.Params.Load, "busy share of a server's CPUs if all memory were local and no other server ran")
	flags.Float64Var(&o.Params.MemoryBound, "memory-bound", o.Params.MemoryBound, "share of a service that waits for memory")
	flags.Float64Var(&o.Params.Balanced, "balanced", o.Params.Balanced, "share of remote accesses that the kernel's balancing has made local")
	flags.Float64Var(&o.Params.Burst, "burst", o.Params.Burst, "0: requests come by a Poisson process; else at 1-BURST and 1+BURST of the rate in turn")
	flags.Float64Var(&o.Machine.Far, "far", o.Machine.Far, "latency of another socket's memory, over the local one's")
	out.flags(cmd)
	return cmd
}
