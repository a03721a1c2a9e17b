// Package v1alpha1 is the group scheduling.hilbert.dev as the API server sees it: the Queue, a node in the tree of those who share a
// cluster.
//
// Data flow: people write a Queue's spec, kube parses it into facts.Queue, the ledger judges it together with all others, and
// kube writes what came of it into the status. The CRD in deploy/crds refuses what one object alone can say wrong; what only the tree
// shows (a missing parent, a circle, a guarantee larger than the parent's) the condition Ready tells.
//
// Invariants: the CRD has the fields of these types, each under its JSON name, and no others; a test compares them. DeepCopy shares
// no memory.
//
// It is not what core sees (that is package cluster), and it has no PodGroup: those are the API server's, or the sigs'.
package v1alpha1
