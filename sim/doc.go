// Package sim is the other door to the core: the same pipeline that hilbertd runs, behind a virtual clock and a small model of the API
// server, in one goroutine.
//
//	trace.Workload ─▶ model (pods, nodes, one history) ─watch: lag, order─▶ schedule.Scheduler ─Ready─▶ writes: latency, loss ─▶ model
//
// Everything that happens is an event of one heap, ordered by virtual time and then by the order in which it was caused. Faults draw
// from the seed. So a run is a function of (workload, options): the same seed gives the same placements, and the same digest, on any
// machine.
//
// Pods preempt only where Options say so; a victim that ends is created anew, as its controller would.
//
// What is checked: always, that no Binding over-commits a node by the model's own books; with CheckEvery also, step by step, that the
// ledger agrees with an independent mirror of what the scheduler has been told, that every committed Plan passes every hard filter as a
// naive judge reads it, constraints between pods included, that a gang gets places together and where it asks for them or none, that no
// queue exceeds its limit, that no gang is torn, that a refused Plan is proposed again only at or after the demanded revision, that only
// pods of lower priority, or what is borrowed, are evicted, after a nomination that is written and for a Plan that stands, and
// Scheduler.Verify; at the end, that nothing waits which would fit, could preempt, or is owed. A breach is a *Violation, which names the
// seed and the step.
//
// Play runs a scenario instead of a workload: a story with commands in between, which prints what happened.
//
// It is not a model of the kubelet or of real machines' speed: a node runs what is bound to it, and decisions take no virtual time.
package sim
