package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"hilbert.dev/hilbert/lab/controlplane"
)

// newKubectlCommand is kubectl itself. Without KUBECONFIG it talks to the running lab.
func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl [arguments]",
		Short:              "kubectl, for the running lab unless KUBECONFIG says otherwise",
		DisableFlagParsing: true, // every flag is kubectl's
		RunE: func(_ *cobra.Command, args []string) error {
			if err := preferRunningLab(); err != nil {
				return err
			}
			// kubectl looks for plugins by the arguments of its own command line.
			os.Args = append([]string{"kubectl"}, args...)
			command := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
				PluginHandler: kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
				Arguments:     os.Args,
				IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
			})
			command.SetArgs(args)
			if err := cli.RunNoErrOutput(command); err != nil {
				cmdutil.CheckErr(err) // prints as kubectl does and exits with its code
			}
			return nil
		},
	}
}

// preferRunningLab points kubectl to the running lab, if there is one and the user chose nothing else.
func preferRunningLab() error {
	if os.Getenv("KUBECONFIG") != "" {
		return nil
	}
	path, err := controlplane.DefaultKubeconfig()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return nil //nolint:nilerr // no lab runs: kubectl then uses its own default, as anywhere else
	}
	return os.Setenv("KUBECONFIG", path)
}
