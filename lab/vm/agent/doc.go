// Package agent holds the tests of hilbertd as a node's agent on a real kernel: what it promises of CPUs, memory and pools is looked for
// in a guest, below an unmodified kubelet and containerd.
//
// Data flow: package join makes a node of a guest; the rig of this package installs what a cluster gets from deploy/ (definitions, roles,
// policies), runs hilbertd's scheduler in the test's own process, and hilbertd as an agent in the guest, with a token bound to its Node.
// Pods go the whole way: API server, scheduler, Binding, kubelet, containerd, NRI, kernel.
//
// Invariants: a test asserts what the guest's kernel says (cgroup files, the status of every task of every pod), never what the agent says
// of itself, except where the agent's word is compared with the kernel's. All tests share one guest; each begins with a node without pods and
// with all services running, whatever the one before left.
//
// It has no code but tests. Times that the kernel is given are wide: the guest is emulated.
package agent
