// Package cores gives the CPUs and memory of one machine to pods, and divides what no pod holds into pools. Only a node's agent uses it; the
// scheduler decides by topology.View, and what View promises, an Allocator can always turn into CPUs.
//
// The Allocator works in offers. Offer computes a Holding without changing anything, Commit takes it, and any change in between makes the offer expire:
//
//	offer, ok := a.Offer(request, promise)   // two cores of NUMA node 0: CPUs 2-3,10-11
//	err := a.Commit("uid", &offer)           // ErrExpired if another pod was admitted meanwhile
//	pools := a.Divide(division)              // which pools share the rest
//
// Exclusive CPUs are whole cores. Divide gives each shared pool the cores that its requests fill or begin, the reclaimed pool its cores of each NUMA
// node, and the pool "share" the rest, and it moves as few cores as it can. A journal undoes what a caller tried and did not want.
//
// Invariants (checked by verify, by an oracle that tries everything, and by fuzzing): no CPU is held twice; an offer exists exactly when some choice
// fits; every CPU that no pod holds is in exactly one pool; what a pod holds does not change until it is released.
//
// It writes nothing to the kernel and knows no pods beyond their ids: package allocate does, and it calls from one goroutine.
package cores
