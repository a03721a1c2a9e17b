// Package tide decides which nodes of a pool serve online pods and which offline work, and when they change hands.
//
//	View ─▶ how many nodes online should have ─▶ which nodes ─▶ Decision{Hands, ...}
//
// Online should have what its pods ask for now, what a window or a planned peak says, what a trusted forecast expects, or its reserve, whichever is most. Nodes for a window
// change hands so early that the bound of an hour allows all of them.
//
// A node goes to online at once when it is needed. One goes to offline only after online has had too many for a while, and no window is near. So a load that swings moves no node.
//
// Of the nodes those change hands whose pods lose the least. Nodes that share a gang go together, or none of them does.
//
// For example, with 10 nodes, 4 of them online, reserve {2, 2} and a window of 7 nodes that begins in an hour: at the latest 15 minutes before it (Lead) three nodes more
// are online's.
//
// Invariants: no decision takes a side below its reserve. In an hour no more nodes change hands than PerHour, but for a gang that is taken whole. No pod is evicted by a decision: Leaving says
// which nodes their pods should leave, and package reschedule moves them, each to a target that is reserved. What is not known (a View that lacks pods) is not decided upon: the caller makes
// no View then.
//
// The package reads no calendar and no cluster.
package tide
