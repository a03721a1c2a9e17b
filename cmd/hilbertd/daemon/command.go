package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbertd/agent"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/cmd/hilbertd/reload"
	"hilbert.dev/hilbert/cmd/hilbertd/removal"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/reach"
)

// NewCommand returns the hilbertd command. It runs until its context ends.
func NewCommand() *cobra.Command {
	var config, kubeconfig, cleanUp string
	command := &cobra.Command{
		Use:   "hilbertd",
		Short: "Schedule a Kubernetes cluster's online and offline work",
		Long: "hilbertd places the pods whose spec.schedulerName is hilbert (or what the configuration says) and binds them.\n" +
			"Start it twice: one process leads, the other one stands by.\n" +
			"With roles: [agent] in its configuration it is a node's agent instead, one on each node.",
		Args:          cobra.NoArgs,
		Version:       version.Get().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			overridden := func(c *spec.Configuration) {
				if kubeconfig != "" {
					c.ClientConnection.Kubeconfig = kubeconfig
				}
			}
			var file *reload.File
			if config != "" {
				file = reload.NewFile(config, overridden) // before it is read: a change in between is seen
			}
			c, err := configfile.Load(config)
			if err != nil {
				return err
			}
			overridden(c)
			log, level := NewLogger(c.Logging)
			apiserver.BridgeLogs(log)
			defer stderr.flush()
			switch cleanUp {
			case "":
			case cleanupNodes:
				return removeFromNodes(command.Context(), c, log)
			default:
				return runCleanup(command.Context(), c, cleanUp, log)
			}
			if err := Run(command.Context(), c, Options{Log: log, Level: level, File: file}); err != nil {
				return fmt.Errorf("run: %w", err)
			}
			return nil
		},
	}
	command.Flags().StringVar(&config, "config", "", "configuration file (YAML); without one, the defaults")
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server; overrides clientConnection.kubeconfig")
	command.Flags().StringVar(&cleanUp, "cleanup", "", "give back what an agent has set on this node, and end; --cleanup=stay: then wait to be ended, for a DaemonSet; "+
		"--cleanup=nodes: end all agents of the cluster and wait until each node is clean, for the Job that helm uninstall runs")
	command.Flags().Lookup("cleanup").NoOptDefVal = cleanupEnd
	return command
}

// The values of --cleanup.
const cleanupEnd, cleanupStay, cleanupNodes = "end", "stay", "nodes"

const (
	// removalTimeout bounds how long nodes have to become clean; the chart's Job, and helm's --timeout, end it before.
	removalTimeout = time.Hour
	removalEvery   = time.Second
)

// removeFromNodes has all nodes of the cluster give back what agents have set.
func removeFromNodes(ctx context.Context, config *spec.Configuration, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	o := removal.Options{Target: reach.Target{Kubeconfig: config.ClientConnection.Kubeconfig}, Namespace: removal.Namespace, Every: removalEvery, Log: log}
	if err := removal.Run(ctx, o); err != nil {
		return fmt.Errorf("clean up all nodes: %w", err)
	}
	log.Info("nothing of agents is left on any node")
	return nil
}

// runCleanup takes back what an agent has set on this node.
func runCleanup(ctx context.Context, config *spec.Configuration, how string, log *slog.Logger) error {
	switch {
	case how != cleanupEnd && how != cleanupStay:
		return exitcode.Usagef("--cleanup=%s: want %s, %s or %s", how, cleanupEnd, cleanupStay, cleanupNodes)
	case !slices.Contains(config.Roles, spec.RoleAgent):
		return exitcode.Usagef("--cleanup is for a node: give the agent's configuration, with roles: [agent]")
	}
	if err := agent.Cleanup(ctx, config, log); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	log.Info("nothing of the agent is left on this node")
	if how == cleanupStay {
		<-ctx.Done()
	}
	return nil
}
