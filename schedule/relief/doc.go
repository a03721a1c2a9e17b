// Package relief evicts the reclaimed pods that nodes' agents request to be evicted, under one budget for the whole cluster.
//
// A node under pressure does not evict by itself while there is time: its agent writes eviction requests into its report, most important first.
// The ledger has the newest report of each node. Relief reads the requests of all nodes and decides which to grant now:
//
//   - A token bucket holds some percent of the reclaimed pods per minute, at least one. Each eviction takes a token. A token comes back if the
//     pod was not evicted after all, for example because a disruption budget refused.
//   - Nodes take turns: the node whose last turn is longest ago is next, with its first request.
//   - Urgent requests take no token. A node gets one urgent eviction in ten seconds.
//
// Example: the budget is 1 % of 200 reclaimed pods, which is 2 evictions a minute. Node a requests pods a1, a2, a3, node b requests b1, and
// all are ordinary. The order is a1, b1, a2, a3, half a minute apart. If b's request becomes urgent in the meantime, b1 goes at once and takes no
// token. If a's pressure ends, its report no longer has a2 and a3, and they stay.
//
// Everything but the tokens and the turns follows from the reports, so a new leader continues where the last one stopped. Its bucket begins empty,
// so leaders that follow one another do not each begin with a burst.
//
// A gang that runs keeps as many members as it needs, or goes whole: the members without whom it is too few follow the one that was evicted, from whatever
// node, and take the tokens of later minutes. What costs others least of their work goes first. A new leader does not know of a gang that was about to
// follow; what is left of it then runs on, and missing members join it.
//
// A pod that its node cannot give what the Binding promised is evicted too, whatever its level, as an urgent request: it waits there in vain. It leaves its gang
// alone. Nodes are told which of their requests a disruption budget refuses (refusals).
//
// Invariants: only pods of the reclaimed level are evicted, or such as were promised something of the node and cannot have it; only from the node that requests
// it or after a member of their gang, and only under the UID that it names; a pod has at most one eviction in flight; in any minute at most the budget and the burst are started, and none in the first moments of a process. What a
// disruption budget refuses is tried again later.
//
// It is not preemption (that is schedule and bind), makes no API call and reads no clock.
package relief
