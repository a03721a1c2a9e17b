// Package advise holds the control laws of a node: how many cores it lends to reclaimed pods, how much headroom it publishes, how hard reclaimed pods are
// suppressed, how memory is limited and protected, and how large the pool of a service with a profile is. Each law is a pure function
//
//	(Observation, Params, State) → (Advice, State)
//
// and Step runs all laws of CPU and headroom, StepMemory those of memory. Time is in the Observation. The same inputs give the same advice, so that a recorded
// log can be replayed, and the simulator runs what nodes run.
//
// # How lending works
//
// For each NUMA node, Step computes the CPUs that online pods need: use divided by TargetUse, and a margin. What is left may be lent. A need must have been
// lower for ShrinkAfter before the difference is lent, and at most LendStep of the shared CPUs are lent each LendInterval: lending is slow. When online pods
// wait for CPUs (run delay or pressure is high), a share of what is lent is taken back in the same tick: giving back is immediate. If they continue to wait,
// reclaimed pods get only the floor, and finally the eviction manager may choose one. Lending that made online pods wait is remembered, and not exceeded
// again for a while that doubles each time.
//
// Headroom, which the scheduler places by, follows the same need. It falls at once, and rises only when it has been higher for RiseAfter, three minutes by
// default: a pod that comes is expected to stay.
//
// # An example
//
// Sixteen divisible CPUs without hyper-threads, TargetUse 0.8, a margin of 2, LendStep 0.25:
//
//	time   online use   need           lent
//	0 s    4.0          4/0.8+2 = 7    0   nothing yet: the need must stay low for 30 s
//	30 s   4.0          7              4   a step is a quarter of 16
//	40 s   4.0          7              8   the next step
//	50 s   4.0          7              9   16-7: there is no more to lend
//	55 s   7.5, waiting 11.4           4   half of it is taken back at once; nothing is lent again for 30 s
//
// # Files
//
// step.go is the order of the laws; lend.go lends; waiting.go judges whether online pods wait; headroom*.go compute headroom; profile*.go
// steer the pools of services; memory*.go are the laws of memory; window.go has extremes over a sliding time; record.go writes and replays logs.
//
// # What always holds
//
// A value that is not known never counts as zero; without it nothing is lent that was not lent before. No number is NaN or infinite. Headroom does not
// rise when online use does, and what reclaimed pods use does not lower it. A pool of reclaimed pods keeps its floor.
//
// It writes nothing and knows only the pods of the Observation: node/allocate turns cores into CPUs, node/enforce and node/shrink act,
// node/evict chooses victims.
package advise
