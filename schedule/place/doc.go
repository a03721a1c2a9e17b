// Package place decides: Snapshot × pod → the best node of all nodes, or an Explanation why there is none.
//
// Two literal tables say what "may" and "best" mean. Filters holds every hard constraint with its commit check: the committer judges a
// Plan against the newest state with the same table, so forecast and commit cannot disagree. Scores holds every score function; Profile
// weighs them.
//
// The best node is exact, not sampled. Pods of one size share a ranking of all nodes (ranking.go); nodes that static filters and scores
// cannot tell apart are node classes (node_classes.go), and classes choose among node classes. A class whose place depends on where other pods stand has an
// index of its own (class_index.go), in which nodes are grouped by what such constraints read. A change of one node moves one heap entry in
// each; a decision combines each group's best with its normalised scores (feasible.go), which costs O(groups) however many nodes there are.
// Ties are broken by a seeded hash of the node's name. docs/adr/0005 has the reasons and the costs.
//
// What free GPUs are worth follows from prices that a Market learns (market.go). They are constant between two decisions; when they have changed, a
// ranking looks at the nodes with GPUs anew before it is used. docs/adr/0011 has the reasons.
//
// A unit's members are placed one after the other on the snapshot, all or none (unit.go). Where it is to be packed, a domain is chosen by
// its free capacity (unit_pack.go): a capacity index (capacity_index.go) follows, for each class, how many pods fit in each domain, so that choosing
// scans domains, not nodes. Among the domain's nodes the scores choose as if there were no others (domain_scorer.go).
//
// Invariants: the node returned has the highest score of all nodes that pass the filters at the snapshot's revision; equal inputs
// give equal results on every machine (float expressions are written so that they cannot fuse).
//
// It is not the queue (who is next) nor the ledger (who holds what), and it has no clock.
package place
