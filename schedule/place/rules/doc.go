// Package rules says what "may" and "best" mean, in two literal tables.
//
// Filters has every hard constraint, in the order in which they are asked. Each entry has four parts: a name, a scope (what it looks at, and so
// when its answer can change), Fits (the forecast), Commits (the check that the committer runs against the newest state) and Why (the phrase
// that a pending pod's condition counts). Because forecast and commit check stand in one table, a filter cannot exist without its check, and
// what is planned cannot be refused for a reason that planning does not know.
//
// LocalScores and NormalizedScores have every score; a Profile weighs them. A local score looks at one node only: how full it is, which GPUs
// it would break up. A normalised score is relative to all feasible nodes: its raw value is scaled so that the best of them has MaxScore. Two
// passes over the feasible nodes (or over one node of each group of equal nodes) fill FeasibleStats, which has what the scaling needs.
//
// Example. Of three nodes, n1 lacks CPU, n2 is empty and n3 is half full, with a taint that the pod only prefers to avoid:
//
//	filter NodeResourcesFit   n1 refused
//	LeastAllocated            n2 100   n3 50     local, weight 1
//	TaintToleration           n2 100   n3 0      normalised: raw 0 and 1, reversed; weight 3
//	total                     n2 400   n3 50
//
// Market (market.go) learns which requests for GPUs arrive and what free GPUs are worth to them; the score GPUWorth reads its price list. The
// list is constant between two decisions, so that scores of nodes depend on the pod's size and the node's state alone.
//
// capacity.go counts how many pods of a class fit on a node; it is what gangs, reservations and victims are measured by.
//
// Invariants: Commits is never weaker than Fits. A score is a function of the state and the class. The package keeps nothing between two calls
// but prices, and orders nothing: that is package index.
package rules
