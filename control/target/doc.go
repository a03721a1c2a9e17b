// Package target proposes targets for ServiceProfiles: which of a node's measures goes with a service's own indicator, and up to which value the service stays within what it
// promises.
//
//	rows of (indicator, measures) at the same times ─▶ Propose ─▶ Proposal: measure, target, evidence, or why there is none
//
// For example, the latency of a service rises with the run delay of its threads: rank correlation 0.8 in 2,000 rows. With a run delay of at most 0.07 the latency stays within
// its limit in 99 % of the rows, above it in 60 %. Then RunDelay 0.07 is proposed.
//
// Ranks are compared, not values: latency seldom is a straight line of anything. The relation has to hold in both halves of the time, so that one bad hour proposes nothing.
//
// Invariants: what is not known is left out, never 0. Nothing is proposed without evidence, and the reason is told. The same rows give the same answer.
package target
