// Package v1alpha1 is the group node.hilbert.dev as the API server sees it. It has two kinds. A CustomNodeResource is the report of a node's agent,
// one for each Node and with its name. A ServiceProfile is the target of a service, for the agents of the nodes that it runs on.
//
// Data flow: the agent builds a spec.NodeStatus from what it observes and allocates, and kube writes it into the status. The scheduler watches it.
// It promises the NUMA nodes in it, and takes the allocations in it as the confirmation of its promises. People read it with kubectl get cnr and
// hilbert top. It has no spec, because no settings reach a node through it. A ServiceProfile goes the other way: people write it, and each agent
// watches it and matches it with its pods.
//
// Invariants: the CRD has the fields of these types, each under its JSON name, and no others; a test compares them. DeepCopy shares
// no memory: controller-gen makes it.
//
// The core does not import this package. It sees api/spec, whose structs this package embeds.
package v1alpha1

//go:generate go tool -modfile=../../../tools/generate/go.mod controller-gen object paths=.
