// Package rdt keeps reclaimed pods from pushing online ones out of the last-level cache and the memory bandwidth, where the processor can do
// that (Intel RDT, AMD QoS), by the kernel's resctrl file system.
//
// Data flow: Open reads what the hardware has. Plan turns settings into two groups, one for online and one for reclaimed pods, each with a mask of
// cache ways and a bandwidth for every domain. Apply makes the groups and writes what differs, Assign moves threads into them, Usage reads what
// they hold. Threads lists those of a pod.
//
// Invariants: a mask is contiguous, within what the hardware has, and no smaller than it allows; a bandwidth is of the hardware's steps. What was
// written is read back, and what the kernel made something else of is an error. A counter that is missing is not known, never zero. Close
// removes both groups, and only those: their threads go back to the default group, which is never written.
//
// It has been tested on fixture trees alone: no machine with this hardware was at hand, and none can be emulated. It decides no share by
// itself; the settings do.
package rdt
