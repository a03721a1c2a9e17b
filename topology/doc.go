// Package topology is the machine model and the fit functions over it, shared by the scheduler's forecast and the node's agent.
//
// A Machine is the hardware: CPUs, cores, caches, NUMA nodes, PCIe devices. What the scheduler needs of it is small and comparable: a Shape
// (what can be promised), a Free (what is left), a Request and a Grant. GPUs are counters of FullGPU thousandths; Devices says more of them: memory,
// MIG instances, who gives them out, and how they, network cards and NUMA nodes hang together. NUMA nodes are NUMA nodes with whole cores and memory. A View is
// a node with all of it: View.Offer chooses GPUs, cards and NUMA nodes at once, View.Fits judges a choice, View.Refusal says what is missing. On the
// node, package topology/cores turns the NUMA nodes of a Grant into CPUs.
//
// Invariants: View.Offer and OfferNUMA are pure functions; a grant that they returned fits the free amounts that they were asked about, and
// Release undoes Commit. Something is offered exactly when there is a way. Exclusive CPUs are given by whole cores, so an amount that fits a NUMA node can always be turned into CPUs of it.
//
// It is not a record of who holds what in the cluster: cluster.Store keeps the grants.
package topology
