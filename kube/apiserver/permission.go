package apiserver

// Permission is something that this package asks of the API server.
type Permission struct {
	Group, Resource string
	Verbs           []string
	// InLeaseNamespace: only in the namespace of the leader election's Lease.
	InLeaseNamespace bool
}
