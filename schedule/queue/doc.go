// Package queue decides which unit is next. A unit is one pod, or the waiting members of a gang. Units wait in the tree of queues that users configure,
// each ordered by its sort policy; those that cannot be placed now cost nothing until something changes that could help them.
//
// # Where a unit waits
//
// A unit is in exactly one of these places:
//
//	gathering     its gang lacks members (gatheringGangs)
//	backing off   it failed, and waits for a time (a heap)
//	blocked       a queue's limit leaves no room (quotaBlock)
//	parked        no node fits its shape (a ShapeQueue that is parked)
//	ready         it is in its ShapeQueue, and in the order
//	popped        the caller decides on it
//
// The caller pops a unit, decides, and answers with Done, Return, Delay, Park or BlockByQuota.
//
// # Shape queues
//
// All that the placement of a unit depends on is its Shape. Units of one shape in one queue form a ShapeQueue: where one fits nowhere, no other does,
// so they are parked and woken together. A cluster with a hundred thousand pending pods has some dozens of shape queues, and an event is
// checked against these.
//
// # The order
//
// A leaf of the tree orders its shape queues by their first units, an inner queue orders its children by their first units or by their shares. Each
// of these orders is a heap, and each node knows the unit that it would give out (tree). So popping gives the same order as sorting everything
// would, and a change of what a queue uses moves one entry.
//
// Example:
//
//	root (Fair)
//	├── train  share 2    shape queues: A = [a1 a2 … a900], parked; B = [b1 b2]
//	└── serve  share 3    shape queues: C = [c1]
//
// Pop returns b1: train has less of its share than serve, A is parked, and B's first unit is b1. Earlier a1 was popped and fitted nowhere, and Park
// took A with its 900 units out of the order by moving one heap entry. When a node frees what shape A asks for, Wake(A) puts it back. If b1 is
// over a limit of train, BlockByQuota keeps it aside until train's usage falls, and then as many units are woken as there is room for.
//
// # Rebuilding
//
// When users add, move or remove queues, the tree is rebuilt and every unit inserted again. Parked shape queues stay parked; TreeGeneration tells
// callers that ShapeQueues they remember are of an old tree.
//
// # Invariants
//
// A unit is in exactly one of the places above; a ready shape queue is not empty; a parked one gives no unit out. The size is bounded by the pods
// that the ledger knows; at most maxIdleShapeQueues shape queues are kept without units.
//
// The package reads the ledger, changes nothing in it but ChangedQueues, and decides no placement. Time is an argument.
package queue
