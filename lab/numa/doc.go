// Package NUMA nodes tests the whole way of a promise at scale: hollow agents report their NUMA nodes, hilbertd places dedicated pods by NUMA node,
// the agents keep what was promised, and say so in CustomNodeResources.
//
// hilbertd and the control plane are the real ones, in processes of their own so that CPU and memory are counted apart; the agents are
// those of package hollow, all in the test's process. Who judges reads nothing but API objects: pods with their annotations, Nodes,
// CustomNodeResources. What the agents and their kernels hold is compared with those afterwards.
//
// Without faults no promise may be moved or broken. With reports that are late, lost, old or too small, with a second scheduler and with
// somebody who binds pods past both, promises may move or break; but no pod may be lost by it, and in the end everything agrees again.
//
// The short form is part of the lab's short tests. The flags -numa.nodes and -numa.pods make it as large as is wanted (make numa-test).
package numa
