// Package intensive says which pods load the memory, by the bandwidth that is read of them, where nobody has said so by the annotation hilbert.dev/memory-bandwidth.
//
//	Reading{time, each pod's bytes per second or unknown} ─▶ Step ─▶ the pods that count as memory-intensive
//
// Readings are put together in windows of ten seconds. A pod that was above BytesPerSecond in six of its last ten known windows counts from then on. It does so until thirty known windows in
// a row, five minutes, were below half of that: a job that reads in bursts is moved once, and not at each burst.
//
// For example, at 10 GB/s a scan of 12 GB/s counts after a minute. It ends, its pod goes on at 1 GB/s, and five minutes later it does not count any more.
//
// Invariants: no pod counts that was not known to be above BytesPerSecond in at least six windows, or was counted by an agent before this one. A window of which nothing is known changes
// nothing; after fifteen minutes of them the pod does not count, for nobody knows. BytesPerSecond has no default, and nothing counts without it. What is remembered is bounded by the pods
// that are given. The same readings give the same answers.
//
// What follows from it is package allocate's: where the pod runs. It is never a reason to evict, nor does the scheduler hear of it (ADR 0051).
package intensive
