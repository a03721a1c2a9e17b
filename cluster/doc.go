// Package cluster is the ledger: what nodes and pods exist, who holds what, and in which order that came about.
//
// Data flow: a door (kube or sim) parses the world into Events; the single-writer Store applies them and answers with Effects, which
// tell the queue what became of pods; a scheduler reads a Snapshot, decides a Plan, and Store.Commit takes the Plan whole or rejects
// it with a reason and the revision that the scheduler must have seen before it tries again.
//
// State is columnar: nodes sit in dense slots, each resource is a column over slots. Every change of a slot is one entry of a bounded
// change log, and the revision is the log's length, so a Snapshot advances by copying the slots that changed since its revision.
//
// What constraints between pods read stands ready beside the columns: tallies count, per slot, the pods that a selector selects or that
// carry an affinity term; censuses sum a tally over the domains of a topology key. Both follow the same log.
//
// Invariants: a pod is charged to at most one node; the sums in the columns are the sums over the pods charged; Commit never makes a
// node hold more than its allocatable amounts (events may: the world does not ask us); a bound pod never becomes unbound; a Snapshot
// does not change between two calls of its own methods. Store.Verify recomputes all of it.
//
// It is not a policy (that is schedule), holds no goroutine, clock or client, and knows no Kubernetes type.
package cluster
