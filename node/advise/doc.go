// Package advise holds the control laws of a node: how many cores its pools should have, what it can lend, how hard reclaimed pods are held
// down, and how the pool of a service is steered to its target. Each law is a pure function
//
//	(Observation, Params, Memory) → (Advice, Memory)
//
// and Step runs them all. Time is in the Observation. The same inputs give the same advice, so that a recorded log can be replayed and the
// simulator runs what nodes run.
//
// Invariants: a value that is not known never counts as zero; without it nothing is lent that was not lent before. No number is NaN or
// infinite. Headroom does not rise when online use does, and what reclaimed pods use does not lower it. A pool of reclaimed pods keeps its floor;
// lending moves at most Params.LendStep of the shared CPUs once in Params.LendInterval, giving back is immediate.
//
// It writes nothing and knows no pods by name but those it is told of: node/allocate turns cores into CPUs, node/enforce and node/shrink act,
// node/evict chooses victims.
package advise
