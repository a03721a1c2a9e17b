// Package cluster is the ledger: which nodes and pods exist, which pod holds what of which node, and in which order that came about.
//
// # How it works
//
// A source (kube or sim) parses what the API server says into facts.Events. The Store, which has a single writer, applies them and answers with
// Effects, which tell the queue what became of pods. A scheduler reads a Snapshot and decides on a Plan. Store.Commit takes the Plan whole,
// or rejects it with a reason and the revision that the scheduler must have seen before it tries again.
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
// # What the Store is made of
//
// Each part is a type that owns its fields and says in its doc what always holds of them; what can be counted anew it checks itself, in a method verify. The Store is the
// transaction that ties them: it takes an event, or commits a Plan, by telling each part in turn, in the order in which they depend on one another.
//
//	           facts.Event                      Plan
//	                │                             │
//	              Apply                 Commit, on a judgement
//	                └──────────────┬──────────────┘
//	what there is    slotTable  nodeBook  grantBook (what nodes report)
//	who there is     podTable  Units  Placeholders
//	what it asks     selection ─▶ classifier ─▶ classBook      claimBook ─▶ volumes, dra
//	what it has      place, attach, unplace: State  grantBook  chargeBook ─▶ quota.Tree  usageBook  attachments
//	what it says     effects (to the queue)  logs of slots, victims, units (to readers)
//
// They are:
//
//   - State: the columns, which every Snapshot has a copy of, in groups: amountColumns, deviceColumns, attachedColumn. Its census.Counts count pods by topology
//     domain, and its trials are what is tried on it.
//   - slotTable, podTable: which node is in which slot, and which pods are on it.
//   - nodeBook: what a slot's node, its report and its plugins say that there is, in the columns.
//   - grantBook: what pods hold of NUMA nodes, GPUs and network cards, as promised, as reported, or as a guess.
//   - chargeBook: what queues are charged for pods, and what nodes provide, in quota.Tree, which has queues and tenants.
//   - usageBook: what pods request that the measured use of their node covers.
//   - claimBook: the volumes and ResourceClaims of pods, and the devices that slots have for them. attachments: what nodes have attached.
//   - classBook: pods that are judged alike share a Class. classifier: which pod has which class, and who is held back.
//   - selection: namespaces, workloads and identities, which say what selectors select.
//   - Units: gangs, and how many of their members have places.
//   - Placeholders: the places that Reservations keep, which are pods of the ledger.
//   - Budgets: disruption budgets. agents.Requests, agents.Events: what nodes ask to be evicted, and what they have to tell.
//
// # Learning what changed
//
// Readers never take a change away: each has its own cursor into a log of package changes. Log is the log of slots, VictimLog of those on which
// preemption would choose anew; Units().Changed and Quota().Changed name gangs, queues and tenants. What is read as a whole has a version
// number instead: census.Counts.Version, quota.Queue.Eased, agents.Requests.Serial. Apply returns what its own event did to pods.
//
// # Trying and taking back
//
// All trials write one journal: mark := s.Mark(); defer s.Rollback(mark). A scheduler assumes placements, lifts pods and opens reserved nodes
// on its Snapshot. A Trial does so on one node, without telling the readers of the log, for preemption asks millions of them. Commit supposes on
// the Store that the victims of a Plan have left, places the pods of the Plan, and ends the supposition; if a check fails, it also releases
// the pods that it has placed.
//
// # What always holds
//
// A pod is charged to at most one node. The sums in the columns and in the tables are the sums over the pods charged. Commit never makes a node
// hold more than its allocatable amounts; events may, for the cluster does not ask the ledger. A bound pod never becomes unbound. A Snapshot
// does not change between two calls of its own methods. Store.Verify recomputes all of it.
//
// The package is not a policy (that is schedule), holds no goroutine, clock or client, and knows no Kubernetes type.
package cluster
