package daemon

import (
	"fmt"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/kube/apiserver"
)

// NewCommand returns the hilbertd command. It runs until its context ends.
func NewCommand() *cobra.Command {
	var config, kubeconfig string
	command := &cobra.Command{
		Use:   "hilbertd",
		Short: "Schedule a Kubernetes cluster's online and offline work",
		Long: "hilbertd places the pods whose spec.schedulerName is hilbert (or what the configuration says) and binds them.\n" +
			"Start it twice: one process leads, the other one stands by.\n" +
			"With roles: [agent] in its configuration it is a node's agent instead, one on each node.",
		Args:          cobra.NoArgs,
		Version:       apiserver.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := LoadConfig(config)
			if err != nil {
				return err
			}
			if kubeconfig != "" {
				c.ClientConnection.Kubeconfig = kubeconfig
			}
			log := NewLogger(c.Logging)
			apiserver.BridgeLogs(log)
			if err := Run(command.Context(), c, Options{Log: log}); err != nil {
				return fmt.Errorf("run: %w", err)
			}
			return nil
		},
	}
	command.Flags().StringVar(&config, "config", "", "configuration file (YAML); without one, the defaults")
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server; overrides clientConnection.kubeconfig")
	return command
}
