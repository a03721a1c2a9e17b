// Package bandwidth reads how much memory bandwidth each pod takes, by the monitoring groups of the kernel's resctrl file system (Intel RDT's MBM, AMD QoS). A pod that fills the memory
// bus makes others slow that wait for no CPU; no other file of the kernel says which pod it is.
//
//	Order(candidates) ─▶ Poller.Watch(pods) ─▶ Poller.Run ─▶ Reader.Read, each five seconds ─▶ a group for each pod, its threads, its counters ─▶ Poller.Of(pod)
//
// Domains reads beside them what all of the machine moves in each domain, and reclaimed pods of it, without a group of its own: what package throttle goes by.
//
// For example, a scan of 12 GB/s in one cache's domain is Use{Total: 12e9}. Whether that is much is for others to say.
//
// Invariants: a value is known only where every counter of the pod's group moved forward between two readings, and most of its threads were in the group all that time. A first reading, a
// counter that went backwards, one that the kernel calls unavailable or unassigned, threads that are in somebody else's group: unknown, never zero. The hardware has few groups, which others
// need too: no more are made than Params.Groups, and no more than half of what the hardware has. Groups are told by their name; no other group is written or removed. Close removes all.
//
// It limits nothing: package rdt does. It has been tested on fixture trees alone.
package bandwidth
