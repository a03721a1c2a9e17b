// Package census counts pods by node and by topology domain, so that constraints between pods are read instead of searched for.
//
// # How it works
//
// A constraint such as "at most one pod of app=db in a zone" needs the number of pods that a selector selects, in each zone. Two kinds of
// counts answer it:
//
//   - A tally counts, on each node, the pods that its selectors select, or the pods that carry an affinity term.
//   - A census sums a tally over the domains of a topology key, on the nodes that are eligible for the constraint.
//
// For example, with three nodes in two zones, and the tally 0 of pods with app=db:
//
//	            zone   tally 0        census of tally 0 by zone
//	node n1     a      1              a: 1
//	node n2     a      0              b: 2
//	node n3     b      2              least: 1, sum: 3
//
// A pod that must keep the skew at 1 may go to zone a. When a pod of app=db leaves n3, Bump(n3, 0, -1) changes one row and one domain.
//
// # Terms of other pods
//
// A term of a pod is about other pods: it repels them, or attracts them. It acts, and those others have to know of it, from when a pod that carries it has a
// place (Registry.Act). Where more than 16 terms act on a pod, one census for each topology key adds up those that repel, and another the weights of those that
// attract, so that a decision reads a handful of censuses, however many terms there are.
//
// # Definitions and counts
//
// The Registry holds the definitions: which topology keys, tallies, scopes and censuses exist, and how many classes of pods read them. The
// ledger and all its snapshots share it; only the ledger changes it. Counts are the numbers, and every state of the ledger has its own. A
// state builds a number when it is first read, and keeps it up from then on.
//
// IDs are small and dense, and given out again. That of a tally is given out again only after the ledger has purged it from every row
// (Registry.Purge).
//
// # What it costs
//
// Memory follows what nodes name and what pods hold, not what pods ask for. A topology key takes 12 bytes a node once some node has the label,
// and nothing before. A scope, which is the nodes that a spread constraint looks at, takes a byte a node and four a domain; all classes that
// look at the same nodes share it, and affinity needs none. A census takes memory for the domains that hold pods. All of it is freed when
// the last class that reads it is.
//
// # What always holds
//
// A census is the sum of its tally's rows, or of several terms' rows times their weights, over the eligible nodes (Verify counts anew). Least is the smallest count of a domain with an
// eligible node. Holders lists exactly the slots on which a tally is above zero.
//
// The package knows no pod, only selectors and numbers, and decides nothing: schedule/place/rules does.
package census
