// Package v1alpha1 is the group node.hilbert.dev as the API server sees it: the CustomNodeResource, what a node's agent says of its
// machine, one for each Node and with its name; and the ServiceProfile, what a service asks of the agents of the nodes that it runs on.
//
// Data flow: the agent builds a spec.NodeStatus out of what it sees and gives away, kube writes it into the status; the scheduler watches
// it and parses it into NUMA nodes that can be promised, and takes the allocations in it for the confirmation of what was promised. People read
// it with kubectl get cnr and hilbert top. It has no spec: nobody tells a node anything through it. A ServiceProfile goes the other way: people
// write it, each agent watches it and matches it with its pods.
//
// Invariants: the CRD has the fields of these types, each under its JSON name, and no others; a test compares them. DeepCopy shares
// no memory.
//
// It is not what core sees: that is api/spec, whose structs it embeds.
package v1alpha1
