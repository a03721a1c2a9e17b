// Package check follows a scheduler from outside and says when it breaks an invariant.
//
// The simulator shows the Checker everything that crosses the scheduler's border: the events that it is told, its decisions, its writes and their
// answers. From these the Checker keeps a mirror: what the scheduler's ledger has to be. Each decision is judged when it is committed, with package
// judge, on what the scheduler had been told by then and not on what is true:
//
//	Told(node n: 4 CPUs)               the mirror has n
//	Told(pod a: 3 CPUs, waits)         the mirror has a, which waits
//	Committed(a on n)                  judge: a fits on n; the mirror has a on n, assumed
//	Told(pod b: 2 CPUs, waits)
//	Committed(b on n)                  violation: "pod b must not go to node n: cpu: 2000 asked, 1000 free"
//
// The Checker also holds gangs and queues (once for each Plan), the budget of evictions that nodes request, the order of writes about a pod, and
// the revision that a rejection demands. Compare compares the ledger itself with the mirror.
//
// It does not look at the API server's objects: what must be true of those is package sim's to check.
package check
