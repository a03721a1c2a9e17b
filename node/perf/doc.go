// Package perf reads what the processor counts of pods: the cycles that their instructions take. A neighbour that fills the memory bus, or takes the cache, makes threads slower
// without making them wait. No file of the kernel says so; the processor's counters do.
//
//	Poller.Watch(cgroups) ─▶ Poller.Run ─▶ Reader.Read, each five seconds ─▶ perf_event_open, for each cgroup and CPU ─▶ Poller.CyclesPerInstruction
//
// For example, a service whose instructions take 1.1 cycles, and 2.3 since a scan of memory runs beside it, is harmed; its run delay is what it was. Who says so is package interference,
// which compares with what was usual at the same load: 1.1 says nothing by itself.
//
// Invariants: a value is known only where the counters really counted for a part of the time, and enough; what the hardware, the hypervisor or the kernel does not show is unknown, with the
// reason, and never zero. Files are bounded: where the cgroups that are wanted need more, they take turns. What is no longer watched is closed.
//
// It is not for profiling: it takes no samples, and says nothing of single threads or functions. It decides nothing.
package perf
