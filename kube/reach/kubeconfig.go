package reach

import (
	"fmt"
	"maps"
	"slices"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // users of kubeconfigs that log in by OpenID Connect
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// loader reads the kubeconfig as kubectl does.
func (t *Target) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: t.Context,
		Context:        clientcmdapi.Context{Cluster: t.Cluster, AuthInfo: t.User},
		AuthInfo:       clientcmdapi.AuthInfo{Impersonate: t.As, ImpersonateGroups: t.AsGroups},
	})
}

// DefaultNamespace is the namespace of what is named without one: the Target's, else the context's, else that of the pod that this runs in, else default.
func (t *Target) DefaultNamespace() (string, error) {
	if t.Namespace != "" {
		return t.Namespace, nil
	}
	namespace, _, err := t.loader().Namespace()
	if err != nil {
		return "", &TargetError{Err: fmt.Errorf("kubeconfig: %w; name another with --kubeconfig or --context", err)}
	}
	return namespace, nil
}

// Entries are the names that a kubeconfig has, in order.
type Entries struct{ Contexts, Clusters, Users []string }

// Entries reads the names that the kubeconfig has.
func (t *Target) Entries() (Entries, error) {
	config, err := t.loader().RawConfig()
	if err != nil {
		return Entries{}, fmt.Errorf("kubeconfig: %w", err)
	}
	return Entries{
		slices.Sorted(maps.Keys(config.Contexts)), slices.Sorted(maps.Keys(config.Clusters)), slices.Sorted(maps.Keys(config.AuthInfos)),
	}, nil
}
