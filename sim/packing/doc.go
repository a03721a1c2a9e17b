// Package packing plays two experiments.
//
// The published one: pods that ask for GPUs, parts of them, CPU and memory arrive one by one until they
// have asked for more than the cluster has, never leave, and are not retried. What counts is how much of the GPUs is allocated.
//
// Policies choose among all nodes that fit, so every policy is work-conserving; each refusal is checked against every node by another function
// than the one that the policies use. The scores of a kind of pod are kept for all nodes, once for those that look alike, and only those of
// new looks are computed again, which gives exactly what computing all of them would give.
//
// The other is a steady state (Steady): pods come, run for as long as the list says, and end.
//
// Invariants: no clock, no file, no goroutine; the same workload, seed and policy give the same placements; all policies see the same arrivals
// and the same order of nodes. It is not the scheduler: queues, affinity and gangs are sim's.
package packing
