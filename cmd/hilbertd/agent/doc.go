// Package agent is hilbertd on a node: the role agent, and the role watchdog that stands in for an agent that is silent.
//
// Run makes a node.Agent and connects it to the kernel, the container runtime and the API server. It serves the agent's report, metrics and health. It begins
// a new agent when CPUs or memory come or go. RunWatchdog watches over an agent from a process of its own, and Cleanup gives back all that agents have set, so that the
// node is as if it had never had one. For example, during an update the new agent waits for the lock of the old one, reads its checkpoint and adopts what runs.
//
// Invariants: only one agent runs on a node at a time. Without cgroup v2 it refuses to start; without an API server it does everything but report. It exits on
// its own only when the kubelet's CPU or memory manager was switched on or off, so that its supervisor starts it again.
//
// The package decides nothing about pods, CPUs or loans: package node does. It knows nothing of the scheduler.
package agent
