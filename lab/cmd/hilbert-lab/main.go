// Command hilbert-lab brings up a real Kubernetes control plane with hollow nodes in one process, and measures schedulers on it. Each
// subcommand is one file; those that are hidden are the processes that a benchmark runs apart, so that one binary is all there is to build. It
// holds no logic of its own beyond flags.
//
// Build it with the version that its API server is to report, which kubectl compares with its own:
//
//	go build -ldflags "-X k8s.io/component-base/version.gitVersion=v1.37.0" ./cmd/hilbert-lab
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// commands are all subcommands, in the order in which help lists them.
var commands = []func() *cobra.Command{
	newUpCommand,
	newKubectlCommand,
	newDemoCommand,
	newBenchCommand,
	newDiffCommand,
	newScenarioCommand,
	newE2ECommand,
	newIntegrationCommand,
	newE2ELabCommand,
	newEtcdCommand,
	newAPIServerCommand,
	newStandinCommand,
	newKubeSchedulerCommand,
	newRawBinderCommand,
	newHilbertdCommand,
	newIntegrationSchedulerCommand,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	if err == nil {
		return
	}
	// A command for which the signal is the ordinary end returns nil. One that was cut short has no result, and must not look as if it had.
	if interrupted && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	fmt.Fprintln(os.Stderr, "hilbert-lab:", err)
	os.Exit(1)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "hilbert-lab",
		Short:         "A real Kubernetes control plane with hollow nodes, in one process",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, newCommand := range commands {
		root.AddCommand(newCommand())
	}
	return root
}
