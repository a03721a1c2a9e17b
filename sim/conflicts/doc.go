// Package conflicts is an experiment: what it costs that several schedulers place pods at the same time, each on a copy of the ledger that lags.
//
// Pods wait in one queue. Each scheduler takes the next, decides on its own snapshot, and sends a Plan to the one committer. The Plan takes the lag to
// arrive. The committer judges it against the ledger; a pod whose Plan is rejected goes back to the front of the queue. A scheduler knows its own Plans that
// are on their way, and what was committed up to a tenth of a lag ago. So the lag is the whole way round, from a decision to when all others can know of it.
//
// Ledger, snapshots, placement and the committer's checks are the production code. Only time is a model: a decision and a commit take as long as Options say,
// whatever the machine that runs the experiment.
//
// Six Strategies are compared:
//
//	plain       each scheduler takes the best node of all, and all break ties the same way
//	seeded      each breaks ties its own way
//	runners-up  seeded, and the Plan names the next best nodes too: the committer takes the first that still fits
//	k-best      scheduler i takes the i-th best node of the k best
//	partitions  scheduler i takes the best node of its own part of the cluster, and of all nodes where none of these fits
//	rotating    partitions whose owners change in turn, each lag (after ParSync: Feng et al., USENIX ATC 2021)
//
// The next best nodes are the best ones of k-1 other stripes, equal parts of the nodes: what the heads of an index's heaps are for free.
//
// Figures: Rejected is the part of all Plans that were rejected, which is work done in vain. ScoreLost is how much less the chosen node scored than the best
// of the ledger at the time of the commit, on average, in points of the score (a node's scores are 0 to 200 here); Best is the part of placements that
// lost nothing. PerSecond is placements by the time that the last one took.
//
// Invariants: the nodes and the pods of a seed are the same for all strategies; no node is overcommitted; every pod is placed or counted as Unplaced; one
// scheduler loses no score; the same seed gives the same figures.
//
// It is not a benchmark: nothing is timed.
package conflicts
