// Package place decides: Snapshot × pod → the best node of all nodes, or an Explanation why there is none.
//
// Two literal tables say what "may" and "best" mean. Filters holds every hard constraint with its commit check: the committer judges a
// Plan against the newest state with the same table, so forecast and commit cannot disagree. Scores holds every score function; Profile
// weighs them.
//
// The best node is exact, not sampled. For every active class a Placer keeps an index over all nodes (index.go): nodes are grouped by
// the raw values of those scores that upstream normalises over the feasible nodes (few values occur), and each group is a heap by the
// local score. A change of one node moves one heap entry; a decision combines each group's best with its normalised part, which costs
// O(groups) however many nodes there are. Ties are broken by a seeded hash of the node's name.
//
// Invariants: the node returned has the highest score of all nodes that pass the filters at the snapshot's revision; equal inputs
// give equal results on every machine (float expressions are written so that they cannot fuse).
//
// It is not the queue (who is next) nor the ledger (who holds what), and it has no clock.
package place
