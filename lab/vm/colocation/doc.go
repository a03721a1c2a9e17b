// Package colocation measures, on a real kernel, what offline pods take from an online service beside them, and what Hilbert's agent leaves of
// that. Its own tests have a guest of no more processors than the host; those of package lock have the worst case.
//
// Data flow: an Arm says what runs beside the online pod and whether the agent does; Bed.Enter makes it so, by pods alone; a Bed reads what the
// guest's kernel counted of the online pod at both ends of a window (schedstat of each thread, pressure), and what the workloads count (answers
// and their latency, offline work); Between makes Figures of both. A Result keeps the Figures of all rounds, by arm, and renders itself as JSON, as
// a table and as a picture.
//
// Invariants: arms are interleaved, in another order each round, because the host's other work comes and goes. Without the agent nothing of
// Hilbert's is left in the kernel: the agent is stopped only when the online pod has all CPUs again. Times are the guest's, where those that the
// host took away count as run.
package colocation
