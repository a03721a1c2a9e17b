// Package place decides where pods go: a snapshot of the cluster and a pod (or a unit of pods) in, nodes out, or an explanation why there are
// none.
//
// It is a thin door. Five packages below it do the work, and each may import only those listed above it:
//
//	rules    may a pod go to a node, and how good is the node: filters, their commit checks, scores, prices
//	index    the best of all nodes without asking all of them: rankings, node classes, capacities by domain
//	pack     several pods together or not at all: gangs, domains of the network, nodes to reserve
//	victims  which pods have to leave so that something fits: preemption by priority, reclaiming by queue share
//	explain  why nothing fits, which nodes come nearest, and the smallest change that would help
//
// Example. A pod asks for 2 CPUs. Placer.Place asks the index, which knows a ranking for pods of 2 CPUs: n7 is on top. The scheduler puts n7
// into a Plan, and the committer judges it by rules.Commits against the newest state. If no node is feasible, Placer.Explain
// answers "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) were unschedulable", and a Preemptor looks for victims.
//
// Invariants: the node returned has the highest score of all nodes that pass the filters at the snapshot's revision. Equal inputs give equal
// results on every machine; ties are broken by a seeded hash of the node's name, and float expressions are written so that compilers cannot
// fuse them.
//
// The package is not the queue (what is next) and not the ledger (what holds what), and it has no clock. docs/adr/0005 has the reasons for
// exact choice and its costs, docs/adr/0011 those for prices.
package place
