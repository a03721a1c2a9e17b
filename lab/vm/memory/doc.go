// Package memory tests on a real kernel the parts of the agent that carry out memory decisions: node/shrink, the memory knobs of
// node/enforce, and the effect of a memory.low that node/advise computed.
//
// Data flow: the guest is a node with an unmodified kubelet and containerd. Tests create pods through the API server; these read files or hold
// memory. The agent does not run: the command actor, which is the product's code with arguments, performs one step at a time when a test
// asks for it.
//
// Invariants: tests assert what the kernel says (memory.current, memory.stat, memory.swap.current, restarts). Tolerances are wide, because the
// guest is emulated. Each test restores what it changed in the kubelet's cgroups.
//
// It tests neither the agent's loop nor the scheduler, and has no code but tests and the actor.
package memory
