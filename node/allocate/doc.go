// Package allocate decides which CPUs, memory and devices each pod of a node gets: the rules of the QoS levels over one topology.Allocator.
//
// # The rules
//
// Dedicated pods hold whole cores of their own, in the NUMA nodes that the scheduler promised if these are still free. All other pods run in pools: shared
// pods in a pool for each business, sized by their requests or by what the laws want; reclaimed pods on the cores that are lent, at least the floor while
// there is such a pod; system pods on the reserved cores. The CPUs that are neither held nor reserved are divided between the pools.
//
// A Manager answers four questions, each with a Verdict: where the pod's containers run, what is to be reported of it, or why it cannot be.
//
//	Admit     its sandbox is made
//	Confirm   a container of it is made
//	Resize    it asks for more or less, in place
//	Release   it has ended
//
// Pools change when holdings do, so Placement is asked again after each change.
//
// # The parts
//
// Each part owns its state, and a Manager leads a pod through them:
//
//	capacity    which CPUs and memory there are, which pod holds which, which NUMA nodes are closed
//	dedicated   gives a pod CPUs of its own, and judges promises of them
//	Pools       divides the other CPUs: what the laws want, what runs in each pool
//	Devices     gives GPUs and network cards: which there are, what the kubelet gave out, which are closed
//	pods        what each pod asked for; tells Pools and Devices of each pod that comes or goes
//
// # An example
//
// Eight cores in two NUMA nodes, CPU 0 reserved. A shared pod is admitted: it runs on CPUs 1-7. A dedicated pod comes with the promise "two CPUs in NUMA node 1":
// it gets 4 and 5, and Placement of the shared pod is now 1-3,6-7. A reclaimed pod comes: the floor is one core in each NUMA node, so it runs on 3 and 7, and the
// shared pod on 1-2,6. When the dedicated pod ends, the shared pod has 1-2,4-6.
//
// If the promise cannot be kept, because CPUs are held that the scheduler took for free, an equivalent place is tried (the promise is moved), then the pod is
// refused (the promise is broken).
//
// # What always holds
//
// No two pods hold a CPU. A reclaimed pod never runs on a shared pod's CPU while there are enough. A restored checkpoint decides as its original would
// have. The package is pure: one goroutine of the shell owns the Manager and writes what it says to the kernel.
//
// It is not a loop, writes nothing and evicts no pod: package node does.
package allocate
