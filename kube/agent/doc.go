// Package agent has the clients of the process that runs on each node: what it tells the API server, and what it asks the API server and
// the kubelet.
//
//	Reporter      writes the node's CustomNodeResource, one request a report
//	Refusals      reads which of the evictions that the node requests a disruption budget refuses
//	GPUOffers     asks who offers the node's GPUs: a device plugin, a DRA driver
//	ConfigurationWatch  follows what the node's own CustomNodeResource says of configuration
//	ProfileWatch  follows the ServiceProfiles of all namespaces
//	PodResources  asks the kubelet which CPUs and devices it gave to pods
//
// Invariants: every request has a timeout and a bound on its answer; together the agents of 20,000 nodes stay within what an API server takes, so each
// budget says how many requests a second that is; a report that was sent earlier and arrives late never replaces a newer one (resource versions).
// An unreachable API server or kubelet is an error for the caller, never an empty answer.
//
// There is no Fence: a node has one agent, and its reports are true whoever leads. The package decides nothing; package node does.
package agent
