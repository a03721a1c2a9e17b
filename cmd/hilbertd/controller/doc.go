// Package controller is hilbertd with the role controller: it carries out what package control decides about a whole cluster.
//
// Run follows the cluster, and while it leads it tells nodes their configuration, moves pods, gives nodes to the tide, changes recommended requests and answers
// ResourceRequests. Each of these is a type of its own with a round of its own: it reads a view, asks a pure function, and writes what that answers. For example, the
// mover asks the scheduler for a snapshot, has the what-if plan moves on it, and advances each of them step by step.
//
// Invariants: nothing is written while the fence of the Lease is closed, and the Lease is given back only when every write is answered. All who disturb pods
// take from one budget.
//
// The package decides nothing itself and places no pod. It shares no state with the scheduler's loop, and asks the leader as any client would.
package controller
