package command

import (
	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/hilbert/complete"
	"hilbert.dev/hilbert/kube/reach"
)

// targetFlagNames are the flags that choose an API server, and as whom it is asked.
var targetFlagNames = []string{"kubeconfig", "context", "cluster", "user", "as", "as-group", "token-file"}

// targetFlags adds the flags that choose an API server, by kubectl's names.
func targetFlags(cmd *cobra.Command, t *reach.Target) {
	flags := cmd.Flags()
	flags.StringVar(&t.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, else ~/.kube/config)")
	flags.StringVar(&t.Context, "context", "", "context of the kubeconfig")
	flags.StringVar(&t.Cluster, "cluster", "", "cluster of the kubeconfig instead of the context's")
	flags.StringVar(&t.User, "user", "", "user of the kubeconfig instead of the context's")
	flags.StringVar(&t.As, "as", "", "ask as this user; your own has to be allowed to impersonate it")
	flags.StringArrayVar(&t.AsGroups, "as-group", nil, "with --as: a group of that user (repeatable)")
	flags.StringVar(&t.TokenFile, "token-file", "", "file with a bearer token to use instead of the kubeconfig's credentials")
	completeFlag(cmd, "context", complete.Kubeconfig(t, func(e reach.Entries) []string { return e.Contexts }))
	completeFlag(cmd, "cluster", complete.Kubeconfig(t, func(e reach.Entries) []string { return e.Clusters }))
	completeFlag(cmd, "user", complete.Kubeconfig(t, func(e reach.Entries) []string { return e.Users }))
}

// namespaceFlag adds --namespace for what is named without one.
func namespaceFlag(cmd *cobra.Command, t *reach.Target) {
	cmd.Flags().StringVarP(&t.Namespace, "namespace", "n", "", "namespace (default: the context's)")
	completeFlag(cmd, "namespace", complete.Namespaces(t))
}

// installNamespaceFlag adds --namespace for where Hilbert is installed.
func installNamespaceFlag(cmd *cobra.Command, t *reach.Target, namespace *string) {
	cmd.Flags().StringVarP(namespace, "namespace", "n", installNamespace, "the namespace that Hilbert is installed in")
	completeFlag(cmd, "namespace", complete.Namespaces(t))
}

func completeFlag(cmd *cobra.Command, name string, f complete.Func) {
	_ = cmd.RegisterFlagCompletionFunc(name, f) // it fails for a flag that is not there, or has a function already
}
