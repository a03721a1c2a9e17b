// Package colocation measures on a real kernel what batch pods take from an online service beside them, and how much of that Hilbert's agent
// prevents. The guest of its own tests has no more CPUs than the host; package lock tests the worst case.
//
// Data flow: an Arm says which pods run beside the online pod, and whether the agent runs. Bed.Enter brings the guest into that state. A Bed
// reads the kernel's counters of the online pod at both ends of a window (schedstat of each thread, pressure) and the workloads' own counters
// (answers with their latency, batch work done). Between computes Figures from two readings. A Result keeps the Figures of all rounds by arm,
// and renders them as JSON, a table and a picture.
//
// Invariants: arms are interleaved, in another order in each round, because other work on the host comes and goes. An arm without the agent
// has no setting of Hilbert's in the kernel: the agent is stopped only when the online pod has all CPUs again. Times are the guest's; CPU
// time that the host took away counts as run time.
package colocation
