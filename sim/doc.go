// Package sim runs a workload through the scheduler without Kubernetes: the same pipeline that hilbertd runs, behind a virtual clock and a small
// model of the API server, in one goroutine.
//
// # What goes in
//
// A trace.Workload (nodes, tasks with the times at which they come and go, queues, PodGroups, what the nodes' agents report) and Options (the
// seed, the scheduler's configuration, how many schedulers, which faults, how much is checked). What comes out is a Report: how many pods were
// placed, how much of the nodes was allocated, and a digest of every Binding. A run is a function of workload and options. The same seed gives the
// same digest on any machine.
//
// Play takes a scenario instead of a workload: commands, and what they should print.
//
// # What happens
//
// Everything that happens is an event of one agenda, ordered by virtual time and, within one instant, by the order in which the events were
// planned. A step of a run is:
//
//  1. The clock moves to the time of the next event.
//  2. All events of that instant happen: pods arrive and end, agents report, faults strike, writes take effect. Each changes an object of the
//     model; the watches tell the scheduler of the change, at once or after a lag.
//  3. The process hands the scheduler what has arrived and lets it decide until it has nothing more to do at this time.
//  4. The writer carries what the scheduler wants to write to the model, at once or after a latency.
//  5. If steps are checked, everything is counted anew.
//
// The parts, and what flows between them:
//
//	trace.Workload ─▶ podLifecycle, admin ─▶ model ─▶ watches (lag, order) ─▶ process: schedule.Scheduler
//	faultInjector, otherScheduler ──────────▶   ▲                                  │
//	storage ────────────────────────────────▶   │
//	nodeAgents ─────────────────────────────▶   └── executor ◀── writer (latency, loss) ◀── Ready
//
// The run ends when the agenda is empty. Decisions take no virtual time.
//
// # An example
//
// One node of 4 CPUs; pod a of 3 CPUs arrives at 0 s and stays for a minute, pod b of 2 CPUs arrives at 10 s. No faults.
//
//	 0 s  a arrives; the scheduler is told, places a on n, and writes the Binding; the model binds a; the scheduler is told
//	10 s  b arrives; nothing fits; b is parked, and its condition is written
//	60 s  a ends; the scheduler is told that n has room, and places b
//
// That is three steps, and a digest over (a, n, 0 s) and (b, n, 60 s). With faults the watch may tell of a's end seconds later, the Binding of b
// may be lost on its way, or the process may die in between: other digests, but b is bound in the end.
//
// # What is checked
//
// Always: no Binding over-commits a node by the model's own books. At the end no pod waits that would fit or may preempt, no gang holds places with
// fewer members than it needs, nothing is under way, and the scheduler's ledger agrees with the model.
//
// With CheckEvery also each decision when it is committed (package check: hard filters, constraints between pods, devices, gangs, queues, victims),
// the order of writes, and after every n-th step Scheduler.Verify, the ledger against a mirror, and what nodes and agents hold. Package judge
// decides, which shares no code with the scheduler. A broken invariant is a *Violation. It names the seed and the step, so that the run can be
// repeated.
//
// # What is not
//
// There are no kubelets and no machines: a node runs what is bound to it. A Report says nothing of the time that writes take in a real cluster. Controllers are reduced to one rule: a pod that is evicted before its time is created anew.
package sim
