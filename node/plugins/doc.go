// Package plugins brings resources of plugins to pods: it finds the plugins, has them set up what a pod was promised, and keeps the book of who holds what.
//
// The Controller looks for sockets at each interval, connects to plugins, and compares the book with what each says. Before a pod is admitted, Prepare asks for the hints of all that the pod asks for,
// merges them with those of its CPUs and with what its Binding promises by NUMA node, and has the plugins allocate. Contribution is then what each of its containers gets. A plugin may also find
// something out (Findings), which the law of eviction hears of.
//
// For example, a pod was promised an FPGA of NUMA node 1. Prepare prefers that hint; the plugin gives card-2, the book has "fpga 1:1, card-2", and the container is made with /dev/fpga0. The plugin crashes
// and is started again: it is told that card-2 is this pod's.
//
// Invariants: where a plugin and the book differ, the book is right. A plugin that dies, hangs or lies harms only who asks for its resource: it is asked for nothing until it has been compared again, and
// no call takes longer than the timeout. A pod has all that it asks for of plugins, or nothing. What a pod holds stays its own until the pod is gone.
//
// Prepare runs beside the agent's loop, all else in it. The package speaks no wire format (node/plugin does) and decides nothing about CPUs: it says from which NUMA nodes they are to come.
package plugins
