// Package command is the command line of hilbert: one file a subcommand, and a literal list of them. A subcommand reads its flags, calls
// the package that does the work, or asks a hilbertd, and prints what it answers for people or as JSON.
//
// Invariants: results go to the command's output, whose control characters are written out, and everything else to its error output; the same arguments print the same, but for
// times and memory; a mistake in the arguments is told with what to write instead.
//
// It is not where anything is decided or simulated.
package command

import (
	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/hilbert/explain"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/plan"
	"hilbert.dev/hilbert/cmd/hilbert/simulation"
	"hilbert.dev/hilbert/cmd/hilbert/top"
	"hilbert.dev/hilbert/internal/version"
)

// New returns the command with all of its subcommands.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:           "hilbert",
		Short:         "Inspect, explain and simulate Hilbert's scheduling",
		Version:       version.Get().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			cmd.SetOut(output.Printable(cmd.OutOrStdout()))
		},
	}
	for _, sub := range []*cobra.Command{
		newCertificate(),
		newConfig(),
		newDashboard(),
		newDoctor(),
		explain.NewCommand(),
		newMigrate(),
		newNode(),
		plan.NewCommand(),
		newQueue(),
		newSnapshot(),
		simulation.NewCommand(),
		top.NewCommand(),
		newUninstall(),
		newVersion(),
	} {
		root.AddCommand(sub)
	}
	return root
}
