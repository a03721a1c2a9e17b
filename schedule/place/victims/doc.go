// Package victims finds the pods that have to leave so that something fits: the cheapest set that it can find.
//
// There are two searches. A Preemptor is for one pod in a cluster without queues or gangs. It judges every node as kube-scheduler does: take all
// pods of lower priority off, see whether the pod fits, put back as many as possible, the most important first; then compare the nodes by
// what would be evicted. A Reclaimer is for units and for queues: it evicts pods of lower priority, and pods that run on what other queues have
// borrowed beyond their guarantee.
//
// The Reclaimer is greedy. It asks each node what one more member would cost there: the node's candidates are taken off, the cheapest first,
// until the member fits, and put back, the most valuable first, as long as it does. The cheapest node wins, and the next member is placed.
// At the end every victim that is not needed after all is put back.
//
// Example. Queue a is guaranteed 8 CPUs and uses 4; queue b has borrowed 4 beyond its guarantee. A unit of a needs 4 CPUs, and every node is
// full. A gang of b runs on n1, and a single pod of b that started a minute ago runs on n2. Either would make room. The gang would have to leave
// whole, so n2 costs less (UnitCost.Gangs), and the pod on n2 is the victim. Nothing is taken from b beyond the 4 CPUs that it has borrowed.
//
// The state of a search has four owners:
//
//	evictablePods   which pods of each node could be evicted, and which are leaving it; follows the ledger's logs
//	victimQuota     from which queue how much may still be taken, and what the unit's own limits still admit
//	victimSearch    what has been taken and placed so far, on the snapshot
//	costTable       what one more pod would cost on each node, kept from one decision to the next
//
// A victim of another Plan that has not left yet is shared: it leaves anyway, and its claimants are charged already, so that the rest of its room
// may be used without a victim of one's own (shared.go). Example: three pods that each need the place of one of three equal pods evict three.
//
// Invariants: a search leaves the snapshot as it was. No pod is a victim that has one of the system's own priorities, nor one that another Plan
// claims, unless the unit might evict it itself. One that is being deleted is waited for, and not evicted. The package proposes; the ledger checks
// the Plan and the API server evicts.
package victims
