package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/lab/integration"
)

// integrationOptions are the flags of integration.
type integrationOptions struct {
	integration.Options
	short  bool
	output string
}

func newIntegrationCommand() *cobra.Command {
	var o integrationOptions
	command := &cobra.Command{
		Use:   "integration [WORD...]",
		Short: "Run upstream's integration tests of scheduling with Hilbert and with kube-scheduler, and compare",
		Long: `Run Kubernetes' own integration tests of scheduling, each on API servers of its own, with Hilbert in kube-scheduler's place and then with kube-scheduler, and
print what passes. The exit status is 1 if Hilbert fails what kube-scheduler passes. Words choose the tests whose names, PACKAGE/TEST, contain all of them. It needs
the go command and the sources: start it in the root of the repository.`,
		RunE: func(command *cobra.Command, words []string) error {
			return runIntegration(command.Context(), command.OutOrStdout(), o, words)
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&o.Schedulers, "scheduler", []string{integration.Hilbert, integration.KubeScheduler}, "the schedulers to run")
	flags.BoolVar(&o.short, "short", false, "only the tests that are marked for a check of a few minutes")
	flags.IntVar(&o.Parallel, "parallel", 2, "how many packages run at once")
	flags.StringVar(&o.Lab, "lab", "lab", "the directory of the lab's module")
	flags.StringVar(&o.Sources, "sources", "bin/integration-upstream", "a directory for the tests' sources, which is emptied first")
	flags.StringVar(&o.Dir, "dir", "", "keep logs in this directory (default: a temporary one, removed if all goes well)")
	flags.StringVarP(&o.output, "output", "o", "text", "text or json")
	return command
}

func runIntegration(ctx context.Context, out io.Writer, o integrationOptions, words []string) error {
	list, err := integration.List()
	if err != nil {
		return err
	}
	o.Tests, o.Progress = integration.Choose(list, o.short, words...), os.Stderr
	if o.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return runTests(out, o.output, &o.Dir, "hilbert-integration-", func() (testResult, error) { return integration.Run(ctx, o.Options) })
}

func newIntegrationSchedulerCommand() *cobra.Command {
	var dir string
	command := hidden("integration-scheduler", "hilbertd for one of upstream's integration tests", func(ctx context.Context, out io.Writer) error {
		return integration.RunHilbert(ctx, dir, out)
	})
	command.Flags().StringVar(&dir, "dir", "", "directory with the kubeconfig and the settings of the test's scheduler")
	return command
}
