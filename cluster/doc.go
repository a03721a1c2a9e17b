// Package cluster is the ledger: which nodes and pods exist, which pod holds what of which node, and in which order that came about.
//
// # How it works
//
// A door (kube or sim) parses the world into facts.Events. The Store, which has a single writer, applies them and answers with Effects, which
// tell the queue what became of pods. A scheduler reads a Snapshot and decides on a Plan. Store.Commit takes the Plan whole, or rejects it with
// a reason and the revision that the scheduler must have seen before it tries again.
//
// State is columnar. A node has a slot, a small dense number, and each resource is a column over slots. Every change of a slot is one entry of
// a bounded change log; the revision is the log's length. For example, with two nodes of 8 CPUs:
//
//	                          slot 0 (n1)  slot 1 (n2)   log
//	NodeUpserted n1, n2        0 of 8       0 of 8       #1 slot 0 redefined, #2 slot 1 redefined
//	PodUpserted a on n1, 2     2 of 8       0 of 8       #3 slot 0 charged
//	Commit b on n2, 3          2 of 8       3 of 8       #4 slot 1 charged; b is assumed
//	PodRemoved a               0 of 8       3 of 8       #5 slot 0 freed
//
// A Snapshot at revision 3 advances to 5 by copying slots 1 and 0, whatever the size of the cluster. A reader of its own index follows the
// same log from its own cursor; one that has fallen further behind than the log remembers starts over from the columns.
//
// # Books
//
// What is not a column stands in books, each a type that owns its fields:
//
//   - quota.Tree: queues, tenants, and what they hold;
//   - unitBook: gangs, and how many of their members have places;
//   - selection: namespaces, workloads and identities, which say what selectors select;
//   - budgetBook: disruption budgets;
//   - EvictionRequests: what nodes ask to be evicted;
//   - registry: the definitions of tallies and censuses, shared with the Snapshots.
//
// Constraints between pods read counts that stand ready beside the columns. A tally counts, per slot, the pods that a selector selects or that
// carry an affinity term; a census sums a tally over the domains of a topology key. Both follow the same log. Holders lists the slots on which
// a tally is above zero.
//
// # Trying and taking back
//
// There are three kinds of trial, each where its cost belongs. A Snapshot assumes placements, lifts pods and opens reserved nodes, and takes all
// of it back to a mark (Mark, Rollback): that journal serves decisions, which explore. A Trial takes pods off one node of a State and
// puts them back; it keeps no journal, for preemption asks millions of them. A judgement applies a Plan to the Store itself, checks each placement, and keeps all or puts all back; it
// records only what it must put back and allocates nothing without victims, because Commit runs once for each pod. One journal for all three would make the
// second and the third pay for the generality of the first.
//
// # What always holds
//
// A pod is charged to at most one node. The sums in the columns and in the books are the sums over the pods charged. Commit never makes a node
// hold more than its allocatable amounts; events may, for the world does not ask the ledger. A bound pod never becomes unbound. A Snapshot does
// not change between two calls of its own methods. Store.Verify recomputes all of it.
//
// The package is not a policy (that is schedule), holds no goroutine, clock or client, and knows no Kubernetes type.
package cluster
