// Package numa tests what binding to NUMA nodes gives pods on a machine of four NUMA nodes: where their threads run, and where the memory lies that they walk through.
//
// Data flow: package join makes a node of a guest with four NUMA nodes, whose firmware says that they are unlike in distance; package deploytest installs Hilbert. Pods whose one
// thread writes to all of its memory again and again run unbound, bound and shared ("zoned"), and bound with CPUs of their own. The tests read the kernel's numa_maps and the CPU that the
// thread ran on last: the share of a pod's pages in the NUMA node of its thread. For example, a pod that runs in NUMA node 2 and has 48 of 64 MiB there has a share of 75 %.
//
// Invariants: nothing is timed. An emulated machine has distances in its tables and none in its memory: a page of another NUMA node is as fast, so that the tests
// show locality and not what it gains. It has no code but tests.
package numa
