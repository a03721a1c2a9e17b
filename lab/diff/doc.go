// Package diff compares Hilbert's placement with upstream's, plugin by plugin: the same random clusters and pods go to both, and for every
// node they must agree on whether it is feasible, on each plugin's normalised score, and so on the set of the best nodes, bit by bit.
//
// Data flow: Generate draws a Case, a history of a small cluster with pods to be judged in between. A Player plays it on both sides:
// upstream is kube-scheduler's cache, snapshot and framework with the plugins of its default profile (table.go), Hilbert is the parser of
// package kube, the ledger, a snapshot that follows it, and a placer. Both live through the whole history, so that what follows a change
// incrementally is compared too. Where upstream's own caches remember more than a new start of it would know, the new start counts. Run
// does this on all cores; Shrink makes a case that fails smaller; Coverage says how often each constraint mattered.
//
// In one history of eight pods also evict others: upstream's dry run of preemption over all nodes against our Preemptor, node by node the
// victims and their cost, and the cost of the node that is chosen. Where upstream's answer depends on more than the cluster (see waver),
// it is counted and not compared.
//
// Invariants: equal arguments give equal cases and reports on every machine; any part of a case is a case; every object that is generated
// is one that an API server admits. What failed once is kept in testdata/regressions.
//
// Claims and volumes are compared in worlds of their own (volumes.go): pod after pod is judged and placed on both sides, and in between claims are bound,
// pods leave, and attachments and drivers change. A world that fails is told by its number and seed; it is not shrunk.
//
// So are ResourceClaims (devices.go), with upstream's own plugin, manager of claims and tracker of slices.
//
// It does not compare who is next.
package diff
