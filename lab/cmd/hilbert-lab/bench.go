package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/lab/bench"
	"hilbert.dev/hilbert/lab/bench/decide"
)

func newBenchCommand() *cobra.Command {
	command := &cobra.Command{Use: "bench", Short: "Measure schedulers, on a real control plane or in memory"}
	command.AddCommand(newBenchScheduleCommand(), newBenchDecideCommand(), newBenchStandinCommand(), newBenchSplitCommand(), newBenchRequestsCommand())
	return command
}

// benchOutput returns what writes a result in the format of --output. It is asked for before anything is measured, so that a wrong format costs no time.
func benchOutput(format string, to io.Writer) (write func(benchResult) error, err error) {
	switch format {
	case "table":
		return func(r benchResult) error { return r.WriteTable(to) }, nil
	case "json":
		return func(r benchResult) error { return bench.WriteJSON(to, r) }, nil
	}
	return nil, fmt.Errorf("--output is %q: choose json or table", format)
}

// benchResult is what any of the benchmarks returns.
type benchResult interface{ WriteTable(w io.Writer) error }

// benchCommand is the command of one benchmark, whose other flags the caller adds.
func benchCommand(use, short string, run func(context.Context) (benchResult, error)) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			write, err := benchOutput(output, command.OutOrStdout())
			if err != nil {
				return err
			}
			result, err := run(command.Context())
			if err != nil {
				return err
			}
			return write(result)
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "table", "json or table")
	return command
}

func newBenchScheduleCommand() *cobra.Command {
	o := bench.Options{Progress: os.Stderr}
	command := benchCommand("schedule", "Measure pods per second on a real control plane: raw Bindings, kube-scheduler and hilbertd, in turn",
		func(ctx context.Context) (benchResult, error) { return bench.Schedule(ctx, o) })
	flags := command.Flags()
	flags.IntVar(&o.Nodes, "nodes", 5000, "number of nodes")
	flags.IntVar(&o.Pods, "pods", 10000, "number of pods in each round")
	flags.IntVar(&o.Gang, "gang", 0, "members of each gang (0: single pods)")
	flags.BoolVar(&o.Mixed, "mixed", false, "sixteen kinds of pods instead of one")
	flags.IntVar(&o.Rounds, "rounds", 3, "rounds of each system")
	flags.StringSliceVar(&o.Only, "only", nil, fmt.Sprintf("run only these of %v", bench.Systems()))
	flags.StringVar(&o.Dir, "dir", "", "directory for logs (default: a temporary one, kept only if the run fails)")
	return command
}

func newBenchDecideCommand() *cobra.Command {
	o := decide.Options{Progress: os.Stderr}
	command := benchCommand("decide", "Measure decisions per second in memory: kube-scheduler and Hilbert, in turn",
		func(ctx context.Context) (benchResult, error) { return decide.Run(ctx, o) })
	flags := command.Flags()
	flags.IntSliceVar(&o.Nodes, "nodes", []int{5000, 20000}, "numbers of nodes")
	flags.StringSliceVar(&o.Cases, "case", decide.Cases(), "kinds of pods to measure")
	flags.IntVar(&o.Rounds, "rounds", 3, "rounds of each scheduler")
	flags.DurationVar(&o.Duration, "duration", 3*time.Second, "how long a round lasts")
	flags.IntVar(&o.Least, "decisions", 200, "least number of decisions in a round, however long they take")
	return command
}

func newBenchStandinCommand() *cobra.Command {
	o := bench.StandinOptions{Progress: os.Stderr}
	command := benchCommand("standin", "Measure pods per second from creation to Binding where no API server is the limit: hilbertd and a stand-in API server",
		func(ctx context.Context) (benchResult, error) { return bench.Standin(ctx, o) })
	flags := command.Flags()
	flags.IntVar(&o.Nodes, "nodes", 5000, "number of nodes")
	flags.IntVar(&o.Pods, "pods", 20000, "number of pods in each round")
	flags.IntSliceVar(&o.AllocatedPercent, "allocated", []int{0, 25, 50, 75, 95}, "percent of the nodes that other pods hold beforehand")
	flags.IntVar(&o.Rounds, "rounds", 3, "rounds of each")
	flags.StringVar(&o.Dir, "dir", "", "directory for logs (default: a temporary one, kept only if the run fails)")
	return command
}

func newBenchSplitCommand() *cobra.Command {
	o := bench.SplitOptions{Progress: os.Stderr}
	command := benchCommand("split", "Measure pods per second from creation to Binding of one hilbertd, and of a leader with schedulers in processes of their own",
		func(ctx context.Context) (benchResult, error) { return bench.Split(ctx, o) })
	flags := command.Flags()
	flags.IntVar(&o.Nodes, "nodes", 20000, "number of nodes")
	flags.IntVar(&o.Pods, "pods", 20000, "number of pods in each round")
	flags.BoolVar(&o.Mixed, "mixed", false, "sixteen kinds of pods instead of one")
	flags.IntSliceVar(&o.Apart, "schedulers", []int{0, 1, 3}, "numbers of scheduler processes beside the leader (0: one process does everything)")
	flags.IntSliceVar(&o.Inside, "inside", []int{1}, "numbers of schedulers in the one process, for the 0 of --schedulers")
	flags.StringVar(&o.APIServer, "api-server", bench.StandinAPIServer, fmt.Sprintf("%s (in memory, no limit) or %s (with etcd)", bench.StandinAPIServer, bench.RealAPIServer))
	flags.IntVar(&o.Rounds, "rounds", 3, "rounds of each")
	flags.StringVar(&o.Dir, "dir", "", "directory for logs (default: a temporary one, kept only if the run fails)")
	return command
}

func newBenchRequestsCommand() *cobra.Command {
	o := bench.ContainersOptions{Progress: os.Stderr}
	command := benchCommand("requests", "Measure containers per second that masters ask for by ResourceRequests: the role controller, hilbertd and an API server",
		func(ctx context.Context) (benchResult, error) { return bench.Containers(ctx, o) })
	flags := command.Flags()
	flags.IntVar(&o.Nodes, "nodes", 1000, "number of nodes")
	flags.IntVar(&o.Masters, "masters", 40, "masters, each with a ResourceRequest of its own")
	flags.IntVar(&o.Containers, "containers", 250, "containers that each master asks for")
	flags.IntVar(&o.Rate, "rate", 0, "containers that the masters ask for in a second, one master after the other (0: all at once)")
	flags.StringSliceVar(&o.Cases, "case", bench.ContainerCases(), "ways to ask: as there is room, all of a master's or none, and on named nodes or in their rack first")
	flags.StringVar(&o.APIServer, "api-server", bench.StandinAPIServer, fmt.Sprintf("%s (in memory, no limit) or %s (with etcd)", bench.StandinAPIServer, bench.RealAPIServer))
	flags.IntVar(&o.Rounds, "rounds", 3, "rounds of each")
	flags.StringVar(&o.Dir, "dir", "", "directory for logs (default: a temporary one, kept only if the run fails)")
	return command
}
