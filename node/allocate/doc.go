// Package allocate decides which CPUs and which memory each pod of a node gets: the rules of the QoS levels over one topology.Allocator.
//
// A pod is admitted when its sandbox is made, confirmed when a container is, resized, released. Each answer is a Verdict: where its containers
// run, what is to be reported of it, or why it cannot be. Dedicated pods hold cores; all others run in pools, which move when holdings do, so
// Placement is asked again after each change.
//
// Invariants: no two pods hold a CPU; a reclaimed pod never runs on a shared pod's CPU while there are enough; a restored checkpoint decides
// as its original would have. The package is pure: one goroutine of the shell owns the Manager and writes what it says to the kernel.
//
// It is not a loop, it writes nothing and evicts nobody: package node does.
package allocate
