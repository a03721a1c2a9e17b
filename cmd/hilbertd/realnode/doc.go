// Package realnode reads a real node for the agent: its GPUs and network cards, the kubelet's configuration and state files, the mode that follows
// from them, disks and uptime.
//
// Roots says below which directories that is (/sys, /proc, /run, /dev); a test gives directories of its own. Devices looks at the hardware each time
// the agent asks, KubeletThresholds reads the kubelet's eviction thresholds, and Mode says whether the kubelet's CPU or memory manager assigns
// CPUs, in which case the agent must not.
//
// Invariants: what cannot be read is unknown, and unknown never permits anything: with an unreadable state file the kubelet is taken to rule. Nothing
// here writes, except the cgroup files that Roots opens for package enforce.
//
// It decides nothing about pods: package node does.
package realnode
