// Package numa is an experiment: what it is worth to a memory-bound service that its cores and its memory are in the same NUMA nodes.
//
// A machine has sockets, of which each has NUMA nodes (NUMA nodes) with CPUs, memory and memory channels. Servers come and go; each has k worker
// threads, as many as CPUs asked for, under every placement. Requests come to a server by a Poisson process, or by one of two rates that
// take turns, wait in its one queue, and are served by a free worker: M/G/k by discrete events. Of a service on an idle machine with local
// memory the share MemoryBound waits for memory. A service that begins in NUMA node z takes
//
//	drawn × (1 − MemoryBound + MemoryBound × L) × (1 + Sibling × share of busy threads there whose core is shared)
//	L = Σ over zones m of part(z, m) × distance(z, m) × loaded(channels of m) × loaded(link to z's socket), links between sockets only
//	loaded(u) = 1 + Congestion × u⁴ / (1 − u), u at most 0.95, and × u beyond 1 (ADR 0009)
//
// where a thread draws Flow GB/s while it is not slowed. part(z, m) is where the server's memory is; the kernel's balancing has made local
// the share Balanced of what would be elsewhere, whoever placed it. What a service meets is what is so when it begins.
//
// Four placements of the same servers are compared, two by two. CPUs are shared, or a server has whole cores for itself. And the placement is
// blind, or topology.OfferNUMA chose the NUMA nodes of a pod that is Bound or BoundShared:
//
//	stock   shared, blind      no CPU manager: threads run where CPUs are idle, memory lies where the threads ran that touched it first, that is, everywhere
//	static  exclusive, blind   the kubelet's static CPU manager without a topology manager: whole NUMA nodes, then cores of the socket and of the NUMA node
//	                           with the fewest free, then of the next; memory beside the cores while there is room
//	zoned   shared, aware      threads run on idle CPUs of the granted NUMA nodes, which others use too: what a shared pod that is bound gets from Hilbert
//	bound   exclusive, aware   cores and memory of the grant: what a dedicated pod that is bound gets
//
// The kernel is thought to find an idle core at no cost, anywhere that it may look. That favours stock, which may look everywhere.
//
// Where the figures come from, fixed before anything was run: an idle remote access takes 1.5 to 2.1 times a local one on two-socket x86 (80 and
// 140 ns are told of Xeons, 118 and 242 by one run of Intel's Memory Latency Checker; Velten et al., ICPE'22, measure Rome and Cascade Lake);
// 1.7 is taken, and 1.15 for the other NUMA node of a socket. A NUMA node has half of eight DDR4-3200 channels, 204.8 GB/s; three UPI links carry
// 20.8 GB/s each in each direction. MemoryBound 0.5, Flow 2 GB/s, Balanced 0.25, Load 0.5 and 5 ms are assumed, and everything is swept. Sibling is that
// of ADR 0009.
//
// Invariants: the servers, the arrivals and the drawn services of a seed are the same under each placement; a worker serves one request at a
// time; no flow is left when all is served; a seed gives the same figures on one architecture.
//
// It is not a proof about real machines: a claim is only as strong as the model. There are no caches, no migrations that cost time, no
// network, and what a request needs does not depend on the others.
package numa
