package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/lab/diff"
)

// regressions is where cases that failed are kept, from the root of the tree.
const regressions = "lab/diff/testdata/regressions"

func newDiffCommand() *cobra.Command {
	var o diff.Options
	var keep string
	command := &cobra.Command{
		Use:   "diff",
		Short: "Compare Hilbert's placement with upstream's plugins on random clusters, bit by bit",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if o.Cases <= 0 {
				return fmt.Errorf("--cases is %d: give a number from 1", o.Cases)
			}
			debug.SetGCPercent(400) // both sides make much garbage and keep little
			o.Progress = os.Stderr
			report, err := diff.Run(command.Context(), o)
			if err != nil {
				return err
			}
			if err := report.Write(command.OutOrStdout()); err != nil {
				return err
			}
			for _, f := range report.Failures {
				if keep == "" {
					break
				}
				name, err := f.Keep(keep)
				if err != nil {
					return err
				}
				fmt.Fprintln(command.OutOrStdout(), "kept", name)
			}
			return report.Err()
		},
	}
	flags := command.Flags()
	flags.IntVar(&o.Cases, "cases", 100_000, "number of pods to judge")
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of the random clusters")
	flags.IntVar(&o.Workers, "workers", 0, "number of cores to use (0: all)")
	flags.StringVar(&keep, "keep", "", "write the smallest case of each failure to this directory")
	flags.Lookup("keep").NoOptDefVal = regressions
	return command
}
