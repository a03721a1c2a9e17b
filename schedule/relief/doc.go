// Package relief evicts the reclaimed pods that nodes' agents want evicted, under one budget for the whole cluster.
//
// Agents write whom they want gone into their reports; the ledger has the newest of each. Of all wishes that stand, relief starts as many
// evictions as a token bucket allows: some percent of the reclaimed pods a minute, but always one. Urgent wishes are not held back by
// that, only by one eviction in ten seconds for each node. Nodes take turns, the one that waits longest first; of one node's wishes the first
// comes first. A wish that is withdrawn is forgotten, and all of this follows from the reports, so that a new leader goes on where the last
// one stopped.
//
// Invariants: nobody is evicted who is not of the reclaimed level, bound to the node that asks, and known by the UID that it names; a pod
// has at most one eviction under way; in any minute at most the budget and the burst are started, and none at all in the first moments of a
// process. What a disruption budget refuses is tried again later, and costs no token.
//
// It is not preemption (that is schedule and bind), makes no API call and reads no clock.
package relief
