// Package blkio shares disks between pods: how much each weighs, what the kernel's cost model (io.cost) knows of a disk, and a ceiling for
// what reclaimed pods read and write.
//
// Data flow: Control.Tick turns pods and settings into knobs of their cgroups, which node/enforce keeps. Cost does the same for the two files at the
// root of the hierarchy that no table has, because each line of them is a setting of a device: it writes a device's line, reads it back, and
// says in Conditions what the kernel did not take. Disks lists what the node has.
//
// Invariants: io.cost is written for devices that the settings name, and for no other; what is right is not written again, and a device that
// refuses is tried ever so rarely. The settings of a device that is no longer named are turned off, those that this process never had are
// left alone. io.latency of the cgroups of pods is the agent's: what an agent before this one has left there is taken away. A disk has io.cost or io.latency, as what
// names it most closely says. All reclaimed pods together weigh as much as one, however many they are; what has a weight of its own weighs as the kubelet's
// cgroups around it let it, so these get the sum of theirs.
//
// Without io.cost (or the BFQ scheduler) weights have no effect: a condition says so. It measures no device: a model is given, or the kernel's own
// guess is used.
package blkio
