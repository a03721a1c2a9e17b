// Package observe reads the kernel's counters into an immutable Observation: what the node and its cgroups use, and what they wait for.
//
// Every value is a Sample, which is Valid, Missing, Stale or Reversed; its accessors make the caller check which. What could not be read is
// never zero: a file that is absent, cut off, malformed or refused gives samples that say so, and is counted. Rates are differences of two
// readings of the same cgroup on the monotonic clock of the caller; a counter that went backwards, or a cgroup that was removed and created again
// under its name, gives no rate.
//
// A Reader works in fixed memory: cgroups, threads and open files are bounded by named constants, and what was left out is counted. Files
// stay open between reads, since opening costs more than reading. Most counters of a cgroup are read only at each SlowEvery-th Read, in
// turn; their samples say their age. Of the threads of a cgroup with many, a random sample stands for all; each thread has the same chance to be in it. With observations given back through Recycle, a Read that finds the same cgroups and threads as the
// one before allocates nothing.
//
// Reading (files.go, reader.go, threads.go) is apart from computing: parsers are pure functions of bytes, and samples are pure functions of
// counters and times. The package reads no clock, starts no goroutine and changes nothing on the node that others see: a memory.peak begins anew for the
// Reader's own descriptor. It does not judge what it sees: that
// is for the control laws.
package observe
