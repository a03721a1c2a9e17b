// Package reach is how the command line tool asks about a cluster.
//
// Reach returns an Inspector, which puts a visibility.Question to the API server by the user's kubeconfig; the aggregated API answers it. Or it asks a
// hilbertd of this host directly. EachNodeReport reads CustomNodeResources page by page, and ReadManifests reads the pods that a YAML file would create.
//
// Invariants: credentials are sent over TLS, to the API server or to this host, and to nobody else; redirects are not followed; only Send
// writes to the cluster, for hilbert uninstall --yes.
//
// It renders nothing: that is the tool's part.
package reach
