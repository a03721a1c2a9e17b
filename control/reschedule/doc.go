// Package reschedule decides which running pods should be somewhere else, and how they get there.
//
//	View ─▶ Reasons ─▶ proposals ─▶ what may be moved, and pays ─▶ batches ─▶ a Move each ─▶ []Action
//
// Reasons is an ordered slice: why pods are moved, the most pressing first. Each names pods and where they would go. A Judge, which the shell has made of the
// scheduler's own prices and rehearsals, answers what only they know.
//
// Decide keeps what may be moved: the pod's owner says yes, somebody makes a replacement, it is no member of a gang (that would tear it), it and its
// workload have not been moved lately, its disruption budget allows it, and the gain is more than the work that is lost. One budget bounds all of it.
//
// Batches orders the moves. A move enters only room that is free before its batch begins, never room that another move of the batch leaves. Moves that
// wait for one another in a circle are broken at the one that wins the least.
//
// Move is the way of one pod: its target is reserved, then it is evicted, then its replacement takes the reservation. For example, a pod whose
// target was taken by another scheduler before the eviction stays where it is; nobody was evicted for it.
//
// A gang is moved whole or not at all, for nodes that change hands alone (GangMove): as one Move, of all its pods and places.
//
// Invariants: nothing is evicted whose target is not reserved and known to the API server. What is not known is not acted upon. The same view gives the
// same moves.
//
// The package reserves nothing and evicts nobody: the shell carries its Actions out.
package reschedule
