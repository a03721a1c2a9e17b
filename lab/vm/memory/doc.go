// Package memory holds the tests of the memory laws' hands on a real kernel: node/shrink, the memory knobs of node/enforce, and what the kernel makes
// of a memory.low that node/advise asked for.
//
// Data flow: the guest is a node with an unmodified kubelet and containerd; pods are made through the API server and read files or hold memory. The
// command actor, the product's own code with arguments, does in the guest what the agent would; the agent itself is not there, so that each step is the
// test's.
//
// Invariants: asserted is what the kernel says (memory.current, memory.stat, memory.swap.current, restarts). Bands are wide, for the guest is emulated;
// each test puts back what it changed of the cgroups that the kubelet made.
//
// It knows neither the agent's loop nor the scheduler, and has no code but tests and the actor.
package memory
