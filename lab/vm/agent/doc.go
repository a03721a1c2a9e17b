// Package agent tests hilbertd as a node's agent on a real kernel: it checks in a guest, below an unmodified kubelet and containerd, that the
// agent keeps its promises of CPUs, memory and pools.
//
// Data flow: package join makes a node of a guest. The rig of this package installs what a cluster gets from deploy/ (definitions, roles,
// policies), runs hilbertd's scheduler in the test's process, and hilbertd as an agent in the guest, with a token bound to its Node. Pods go
// the whole way: API server, scheduler, Binding, kubelet, containerd, NRI, kernel.
//
// Invariants: a test asserts what the guest's kernel says (cgroup files, the status of every task of every pod), not what the agent reports,
// except where it compares the two. All tests share one guest; each starts on a node without pods and with all services running, whatever
// the test before it left.
//
// It has no code but tests. Timeouts for the kernel are long, because the guest is emulated.
package agent
