// Package v1alpha1 is the group scheduling.hilbert.dev as the API server sees it. It has four kinds: the Queue, a tenant's share of the
// cluster, which form a tree; the Reservation, places that are kept for pods to come; the ResourceRequest, containers that an application
// master asks for; and the TidePool, nodes that change hands between services and offline work.
//
// Data flow: people write a Queue's spec, kube parses it into facts.Queue, the ledger checks it together with all other Queues, and kube writes
// the result into the status. The CRD in deploy/crds refuses what is wrong in one object alone. The condition Ready reports what only the tree
// shows: a missing parent, a cycle, a guarantee larger than the parent's.
//
// A Reservation goes the same way: kube parses it into facts.Reservation, the ledger makes placeholders of its places, and kube writes how they stand into the status,
// from which a new leader restores them. A ResourceRequest is answered by the role controller: kube/requests makes its pods as control/request decides.
//
// A TidePool is read by the role controller, which decides by control/tide and writes the status.
//
// Invariants: the CRD has the fields of these types, each under its JSON name, and no others; a test compares them. DeepCopy shares
// no memory: controller-gen makes it.
//
// The core does not import this package: it sees facts.Queue. There is no PodGroup here, because the API server has one, and the sigs have another.
package v1alpha1

//go:generate go tool -modfile=../../../tools/generate/go.mod controller-gen object paths=.
