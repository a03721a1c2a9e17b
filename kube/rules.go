package kube

import (
	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
)

// Permissions are exactly the permissions that hilbertd needs on any API server. One test compares deploy/ with it, another the requests that are really
// made.
var Permissions = []apiserver.Permission{
	{Resource: "nodes", Verbs: []string{"list", "watch"}},
	{Resource: "pods", Verbs: []string{"get", "list", "watch", "delete"}}, // get: to learn what became of a Binding; delete: victims
	{Resource: "namespaces", Verbs: []string{"list", "watch"}},
	{Resource: "services", Verbs: []string{"list", "watch"}},
	{Resource: "replicationcontrollers", Verbs: []string{"list", "watch"}},
	{Group: "apps", Resource: "replicasets", Verbs: []string{"list", "watch"}},
	{Group: "apps", Resource: "statefulsets", Verbs: []string{"list", "watch"}},
	{Group: "policy", Resource: "poddisruptionbudgets", Verbs: []string{"list", "watch"}},
	{Resource: "persistentvolumeclaims", Verbs: []string{"list", "watch", "patch"}}, // patch: for which node a volume is provisioned
	{Resource: "persistentvolumes", Verbs: []string{"list", "watch", "patch"}},      // patch: which claim it is bound to
	{Group: "storage.k8s.io", Resource: "storageclasses", Verbs: []string{"list", "watch"}},
	{Group: "storage.k8s.io", Resource: "csidrivers", Verbs: []string{"list", "watch"}},
	{Group: "storage.k8s.io", Resource: "csistoragecapacities", Verbs: []string{"list", "watch"}},
	{Group: "storage.k8s.io", Resource: "csinodes", Verbs: []string{"list", "watch"}},
	{Group: "storage.k8s.io", Resource: "volumeattachments", Verbs: []string{"list", "watch"}},
	{Resource: "pods/binding", Verbs: []string{"create"}},
	{Resource: "pods/status", Verbs: []string{"patch"}},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies", Verbs: []string{"list"}}, // whether promises could be forged
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings", Verbs: []string{"list"}},
	{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"}}, // who asks about scheduling, and which scheduler elsewhere
	{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create"}},               // why a pod waits; what became of evictions; what nodes' agents have to tell
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"}},
	{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"create", "get", "update", "watch"}, InLeaseNamespace: true},
}

// OptionalPermissions are what hilbertd needs in addition where the API server has PodGroups, Queues, CustomNodeResources and ResourceClaims. Rules about resources that do not exist
// do no harm, so that deploy/ grants them too.
var OptionalPermissions = []apiserver.Permission{
	{Group: parse.GroupScheduling, Resource: parse.PodGroups, Verbs: []string{"get", "list", "watch"}}, // get: what its condition says already
	{Group: parse.GroupScheduling, Resource: parse.PodGroups + "/status", Verbs: []string{"patch"}},
	{Group: parse.GroupSigs, Resource: parse.PodGroups, Verbs: []string{"get", "list", "watch"}},
	{Group: parse.GroupSigs, Resource: parse.PodGroups + "/status", Verbs: []string{"patch"}},
	{Group: v1alpha1.Group, Resource: v1alpha1.Queues, Verbs: []string{"get", "list", "watch"}},
	{Group: v1alpha1.Group, Resource: v1alpha1.Queues + "/status", Verbs: []string{"patch"}},
	{Group: v1alpha1.Group, Resource: v1alpha1.Reservations, Verbs: []string{"list", "watch"}},
	{Group: v1alpha1.Group, Resource: v1alpha1.Reservations + "/status", Verbs: []string{"patch"}},
	{Group: parse.GroupScheduling, Resource: "priorityclasses", Verbs: []string{"list", "watch"}},                      // what the templates of Reservations are worth
	{Group: nodev1alpha1.Group, Resource: nodev1alpha1.CustomNodeResources, Verbs: []string{"list", "watch", "patch"}}, // patch: which evictions a budget refuses
	{Group: parse.GroupResource, Resource: "resourceclaims", Verbs: []string{"list", "watch", "create", "patch"}},      // create: for extended resources; patch: the finalizer of claims that are given devices
	{Group: parse.GroupResource, Resource: "resourceclaims/status", Verbs: []string{"patch"}},                          // which devices, and for which pods
	{Group: parse.GroupResource, Resource: "resourceclaims/binding", Verbs: []string{"patch"}},                         // the same, to API servers of v1.36 and later
	{Group: parse.GroupResource, Resource: "deviceclasses", Verbs: []string{"list", "watch"}},
	{Group: parse.GroupResource, Resource: "resourceslices", Verbs: []string{"list", "watch"}},
	{Group: parse.GroupResource, Resource: "devicetaintrules", Verbs: []string{"list", "watch"}},
	{Resource: "pods/eviction", Verbs: []string{"create"}},                 // of pods, at their nodes' request
	{Group: "events.k8s.io", Resource: "events", Verbs: []string{"patch"}}, // how often what nodes' agents have to tell was so
}
