package kube

// Permission is something that this package asks of the API server.
type Permission struct {
	Group, Resource string
	Verbs           []string
	// InLeaseNamespace: only in the namespace of the leader election's Lease.
	InLeaseNamespace bool
}

// Permissions is everything that hilbertd needs to be allowed, and no more. A test holds deploy/ to it, another one what is really asked.
var Permissions = []Permission{
	{Resource: "nodes", Verbs: []string{"list", "watch"}},
	{Resource: "pods", Verbs: []string{"get", "list", "watch", "delete"}}, // get: to learn what became of a Binding; delete: victims
	{Resource: "namespaces", Verbs: []string{"list", "watch"}},
	{Resource: "services", Verbs: []string{"list", "watch"}},
	{Resource: "replicationcontrollers", Verbs: []string{"list", "watch"}},
	{Group: "apps", Resource: "replicasets", Verbs: []string{"list", "watch"}},
	{Group: "apps", Resource: "statefulsets", Verbs: []string{"list", "watch"}},
	{Group: "policy", Resource: "poddisruptionbudgets", Verbs: []string{"list", "watch"}},
	{Resource: "pods/binding", Verbs: []string{"create"}},
	{Resource: "pods/status", Verbs: []string{"patch"}},
	{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"}}, // who asks about scheduling
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"}},
	{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"create", "get", "update"}, InLeaseNamespace: true},
}
