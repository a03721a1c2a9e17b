// Package explain says why a pod has no node, in words that its owner can act on.
//
// It asks every filter about every node, without an index, and answers with three things: how many nodes each filter refused, with which phrase
// (Reasons); the nodes that come nearest, with all obstacles there (Nearest); and the smallest single change after which the pod
// would fit (Changes), in order of preference: first what comes about by itself, then what the pod's owner can do, then what the
// administrator can, then what costs others.
//
// Example. A pod asks for 3 CPUs; n1 has 2 free, n2 is cordoned:
//
//	0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. It would fit with 1 more cpu free on n1. Nearest: n1 lacks 1 cpu (3
//	asked, 2 free of 4); n2 is unschedulable (cordoned).
//
// obstacles.go has one entry for each filter of rules.Filters, at the same index: what its obstacles are, the words for one, and the changes that
// take it away. A change is reported only after it was tried on a copy of the node's state. Unit explains a unit: how many members would fit
// anywhere, in which domain most would, and which single constraint on the topology prevents it.
//
// Invariants: an explanation depends on what the state holds and on nothing else, neither on the numbering of slots nor on the order in which
// things were seen. The log, the pod's condition, the command line and the tests print the same rendering. It costs time proportional to the
// nodes, so that callers ask seldom.
package explain
