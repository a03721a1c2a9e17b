// Package egress gives the traffic that reclaimed pods send off the node a ceiling at each uplink that all of them share, and where that is wanted one for what comes in for them, and
// leaves everybody else's alone.
//
// Data flow: Ceiling says how much they may send, from what the link carries and what online pods send. Control brings it to Egress, and that to the kernel. A
// program at the host's end of a reclaimed pod's veth marks its packets with the pod's slot; one at an uplink counts both classes and each pod, and gives each reclaimed
// packet the time at which it may leave (EDT), by one clock of the uplink; the fq qdisc there keeps it until then. Pods in the host's network
// have no veth and are known by their cgroup. What comes in is dropped beyond its ceiling by a program at the same veth, or at the cgroup of a pod in the host's network.
//
// Invariants: a packet that is not marked is counted, and never delayed or dropped. What waits is bounded in time and in bytes, so that it
// cannot fill the qdisc that online pods share; beyond that reclaimed packets are dropped, and from a sixteenth of it on some are, so that
// who fills it does not keep the others out. Traffic between pods of one node is not counted.
// Programs, counters and the ceiling are pinned where the kernel has a BPF file system: they hold while the agent is away, and the next one
// takes them over. Detach takes all of it back, and a qdisc that an administrator chose is never replaced.
//
// It also says which uplinks are pressed, and what each pod sends by them (Senders); it evicts nobody. Pods are told apart up to maxSlots; reclaimed ones beyond that have the
// ceilings too, and it is not known what each sends.
//
// The mark is the packet's queue mapping, as Cilium uses it: it is lost where a virtual device other than
// a bridge lies between pod and uplink (VXLAN, IPIP), and such packets then count as online; and Cilium's own
// bandwidth manager cannot be on beside it. It needs Linux 6.6 (TCX).
package egress
