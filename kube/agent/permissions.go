package agent

import (
	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/kube/apiserver"
)

// KubeletPermissions is what the agent asks of kubelets, who ask the API server whether it may. RBAC cannot say which kubelet: an agent may see what
// pods of other nodes use.
var KubeletPermissions = []apiserver.Permission{
	{Resource: "nodes/stats", Verbs: []string{"get"}},
	{Resource: "nodes/configz", Verbs: []string{"get"}},
}

// Permissions is everything that the agent of a node needs to be allowed on the API server, and no more. RBAC cannot say which
// CustomNodeResource: deploy/policies/cnr-own-node.yaml does.
var Permissions = []apiserver.Permission{
	{Resource: "nodes", Verbs: []string{"get"}},                                                                // whose UID owns the CustomNodeResource; whether a device plugin offers its GPUs; what its annotations say of uplinks
	{Group: "resource.k8s.io", Resource: "resourceslices", Verbs: []string{"list"}},                            // whether a DRA driver offers its GPUs
	{Group: v1alpha1.Group, Resource: v1alpha1.CustomNodeResources, Verbs: []string{"create", "get", "watch"}}, // watch: what the node is told of configuration
	{Group: v1alpha1.Group, Resource: v1alpha1.CustomNodeResources + "/status", Verbs: []string{"update"}},
	{Group: v1alpha1.Group, Resource: v1alpha1.ServiceProfiles, Verbs: []string{"list", "watch"}},
}
