// Package plugin speaks with resource plugins: processes of their own that bring the agent resources which it does not know by itself.
//
// # How it works
//
// A plugin serves the protocol of api/nodeplugin on a unix socket in one directory. The agent looks there, connects, and asks. There are four parts:
//
//   - Directory and Client are the way out. A socket is used only if it, its directory and the process behind it belong to root. Every call has a deadline and every
//     answer a bound in bytes.
//   - read.go turns answers into values of this package, and refuses what is out of bounds: NUMA nodes that the machine does not have, amounts below 0, variables that
//     would change how programs are loaded, mounts from places that nobody allowed.
//   - detect.go reads what a plugin has found out about the node: conditions, and which of the pods that it was told of would help by going. Package evict decides what follows.
//   - Book is what the agent itself has recorded: what each resource's NUMA nodes have, and what each pod holds. A plugin's allocation counts only if it fits the book:
//     the sum that was asked for, from the NUMA nodes that were chosen, no more than there is, and no name that another pod has.
//
// For example, a plugin offers example.com/fpga with one card near each of two NUMA nodes. A pod asks for one. The plugin's hints are {0} and {1}; the agent merges them
// with the pod's CPUs (package hint), chooses {1}, and calls Allocate with that. The plugin answers "one of NUMA node 1, the device /dev/fpga1". The book takes it in, and
// the container gets the device.
//
// Invariants: a plugin never holds the agent up beyond the deadline of the one call; what it says concerns its own resource, and reclaimed pods that might go. Book and read.go are pure. The
// package decides nothing about pods: node.pluginController does.
package plugin
