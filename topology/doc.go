// Package topology is the machine model and the fit functions over it. The scheduler's forecast and the node's agent call the same functions, so the agent
// can keep what the scheduler promised.
//
// # The model
//
// A Machine is the hardware as an agent reads it: CPUs, cores, caches, NUMA nodes, PCIe devices. Decisions need less, and the ledger keeps it for
// every node, so it is small values of fixed size that can be compared and copied:
//
//	              what there is    what is left      a pod asks for   a pod gets
//	GPUs, cards   Shape, Devices   Free, DeviceFree  Request          Grant
//	NUMA nodes    NUMAShape        NUMAFree          NUMARequest      NUMAGrant, in the Grant
//	plugins bring []Resource       ResourceFree      ResourceRequest  ResourceGrant, in the Grant
//
// GPUs are counters of FullGPU thousandths. Devices adds what only an agent can report: memory, MIG instances, the party that gives the GPUs out, and
// which switch, NUMA node and socket each GPU and network card is attached to. A View joins all of one node.
//
// # How an offer is found
//
// View.Offer chooses GPUs, cards and NUMA nodes at once. It tries levels from the closest to the widest: one PCIe switch, one NUMA node, one socket, the
// machine. A level divides the machine into domains. Of the domains that hold the whole request it takes the one in which the least is left afterwards
// (best fit), so that large requests still find room elsewhere. Inside the domain it takes the GPUs that are best connected, the cards on their switches,
// and the NUMA nodes of OfferNUMA: as few as hold the CPUs and memory, on as few sockets, with the least left over. There are at most 256 sets of NUMA
// nodes and a few dozen domains, so it tries all of them.
//
// A preference takes the closest level that works; "required" stops at the level that the request names. View.Fits judges a choice that was made elsewhere,
// View.Refusal says what is missing, and View.Rest and Lacks show what is left, for people.
//
// # An example
//
//	switch 0, NUMA node 0   GPU 0 (750 left), GPU 1 (1000 left)   card 0
//	switch 1, NUMA node 1   GPU 2 (1000 left), GPU 3 (1000 left)  card 1
//
// A quarter of a GPU with a card near it: both switches could hold it. GPU 0 leaves the least, so the grant is 250 of GPU 0, and card 0. Two whole GPUs
// below one switch: switch 0 has one idle GPU, so they are GPUs 2 and 3. Had the first pod been placed on GPU 2, no switch would hold the second pod.
//
// On the node, package topology/cores turns the NUMA nodes of a Grant into CPUs. Exclusive CPUs are whole cores, so an amount that fits a NUMA node always
// can be turned into CPUs of it, and the scheduler need not know which.
//
// # Invariants
//
// View.Offer and OfferNUMA are pure functions. Something is offered exactly when some choice fits; a grant that they return fits the free amounts that
// they were asked about. Release undoes Commit.
//
// The package keeps no record of which pod holds what: cluster.Store keeps the grants in the ledger, and node/allocate on the node.
package topology
