// Package fragment scores GPU placements by what they leave behind: what the free GPUs, CPU and memory of a node are still good for, given
// the mix of requests that arrives.
//
// # The question
//
// A pod asks for half a GPU. Node a has a GPU with half free, node b only whole free GPUs. Both fit. On b the pod breaks a whole GPU, which
// pods of one GPU could have used, so a is better, if pods of one GPU arrive. If most pods ask for a quarter, it makes no difference. And if a
// has no CPU left beside its half GPU, nothing else could have used it, so taking it costs nothing. A score has to know what arrives.
//
// # The mix
//
// Mix counts the requests that were seen, by kind. Old ones fade, and the number of kinds is bounded.
//
// # Two scores
//
// Target is the published measure, Fragmentation Gradient Descent (Weng et al., USENIX ATC'23, section 4): Target.Fragmentation is the part of a
// node that a request drawn from the mix cannot use, Target.Gradient scores a placement by how much that rises.
//
// Prices is ours. Market treats the rest of the cluster as a market: each kind of request has a price, and each node buys the requests that fill
// its free pieces best. Kinds that are bought more often than they arrive become more expensive, the others cheaper, until both balance; this is a
// subgradient method. The worth of a node is then the value of its best filling, and Prices.Score is the worth that a placement destroys.
//
// Example: requests for halves and for whole GPUs arrive equally often. A free whole GPU is worth 1000 (one whole request, or two halves). A half is
// worth 500. Placing a half on the broken GPU costs 500 and gains 500: loss 0. If halves are rarer than the broken GPUs that could take them, their
// price falls, a broken GPU is worth less than 500, and breaking another whole one loses the difference.
//
// # Scarce models
//
// A mix counts pods as they arrive. Pods that arrive seldom and run for months want more of a model in the long run than the mix says, so Demand
// counts what runs and what waits. Where pods that name a model want nearly all that there is of it, its GPUs are worth more (Params.Scarcity), and
// pods that may use another model go there.
//
// # Making room
//
// Mover makes room for a pod that fits nowhere by moving others, several and one for another if need be (an ejection chain), on some nodes only if need be. BestMove finds the one
// move that wins the most worth. Both only plan. Each step of a plan fits when those before it were done, no node takes part in a plan twice, and
// all searches are bounded.
//
// # Invariants
//
// All functions are pure over Node and Request, except that Market.Learn replaces the prices. Scores are comparable only between two calls of
// Learn. A score exists exactly for what fits. Float expressions are written so that they cannot fuse, so that prices are the same on every machine.
//
// The package is not a filter: whether a node may be used for other reasons is decided in schedule/place.
package fragment
