// Package enforce makes the kernel's knobs what they should be. A knob is a file of a cgroup, such as cpuset.cpus, with a desired value and one owner. A Table
// compares all desired values with the kernel and writes those that differ; a Writer works a Table in a goroutine of its own.
//
// # How a Table works
//
// Want sets a desired value, Release gives the knob up. Flush compares the knobs whose desired value has changed, Tick all of them. A value that the kernel has
// already is not written. One that was right before and no longer is has been changed by another process: it is written again and counted as reverted.
// What is gone (the cgroup was removed) is not an error. What the kernel refuses is tried again with a backoff of up to 16 ticks.
//
// Writes are ordered. What takes CPUs away comes before what gives them to another pod, so that two pods never share a CPU for a moment; and a parent comes
// before its children.
//
// # An example
//
// A dedicated pod gets CPUs 4-5, which a shared pod has. The agent wants
//
//	podA/cpuset.cpus = 1-3,6-7    (the kernel has 1-7)
//	podB/cpuset.cpus = 4-5        (the kernel has nothing)
//
// Flush writes podA first, because that only takes away, then podB. A second Flush writes nothing. If a restart of systemd empties podB's file, the next Tick
// writes it again, and Outcome.Reverted is 1.
//
// # What always holds
//
// A knob has one owner, and another one is refused. Values are compared as the kernel means them, so "0,1" is "0-1". One knob is written at most MaxAttempts
// times in a tick.
//
// It decides no value. A Table belongs to one caller at a time. Some files are slow: a change of cpuset.mems moves memory, which takes seconds. Give such files a
// Writer of their own.
package enforce
