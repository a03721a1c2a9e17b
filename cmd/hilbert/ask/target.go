package ask

import (
	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/hilbert/complete"
	"hilbert.dev/hilbert/kube/reach"
)

// targetFlagNames are the flags that choose an API server, and as whom it is asked.
var targetFlagNames = []string{"kubeconfig", "context", "cluster", "user", "as", "as-group", "token-file"}

// TargetFlags adds the flags that choose an API server, by kubectl's names.
func TargetFlags(cmd *cobra.Command, t *reach.Target) {
	flags := cmd.Flags()
	flags.StringVar(&t.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, else ~/.kube/config)")
	flags.StringVar(&t.Context, "context", "", "context of the kubeconfig")
	flags.StringVar(&t.Cluster, "cluster", "", "cluster of the kubeconfig instead of the context's")
	flags.StringVar(&t.User, "user", "", "user of the kubeconfig instead of the context's")
	flags.StringVar(&t.As, "as", "", "ask as this user; your own has to be allowed to impersonate it")
	flags.StringArrayVar(&t.AsGroups, "as-group", nil, "with --as: a group of that user (repeatable)")
	flags.StringVar(&t.TokenFile, "token-file", "", "file with a bearer token to use instead of the kubeconfig's credentials")
	complete.Flag(cmd, "context", complete.Kubeconfig(t, func(e reach.Entries) []string { return e.Contexts }))
	complete.Flag(cmd, "cluster", complete.Kubeconfig(t, func(e reach.Entries) []string { return e.Clusters }))
	complete.Flag(cmd, "user", complete.Kubeconfig(t, func(e reach.Entries) []string { return e.Users }))
}

// NamespaceFlag adds --namespace for what is named without one.
func NamespaceFlag(cmd *cobra.Command, t *reach.Target) {
	cmd.Flags().StringVarP(&t.Namespace, "namespace", "n", "", "namespace (default: the context's)")
	complete.Flag(cmd, "namespace", complete.Namespaces(t))
}

// installNamespace is where deploy/ and the chart install Hilbert.
const installNamespace = "hilbert-system"

// InstallNamespaceFlag adds --namespace for where Hilbert is installed.
func InstallNamespaceFlag(cmd *cobra.Command, t *reach.Target, namespace *string) {
	cmd.Flags().StringVarP(namespace, "namespace", "n", installNamespace, "the namespace that Hilbert is installed in")
	complete.Flag(cmd, "namespace", complete.Namespaces(t))
}
