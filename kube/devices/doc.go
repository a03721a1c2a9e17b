// Package devices chooses devices for ResourceClaims with the allocator of Kubernetes (k8s.io/dynamic-resource-allocation/structured), as the port dra.Allocator.
//
// Example: node n1 has a slice with three GPUs, one of which a claim has, and a pod's claim asks for two of class gpu.example.com. Allocate returns the two others,
// with the JSON that is written to the claim's status.allocation. For a claim of three it returns "cannot allocate all claims", and Explain says "has 1 of 3 devices
// of class gpu.example.com taken".
//
// # Invariants
//
// An answer depends on the Query alone, but for the identities of shares of devices, which are drawn, and for the time that a search may take. The features are those that are on by default
// in v1.37. The package keeps compiled expressions and nothing else; it knows no cluster and calls no API server.
package devices
