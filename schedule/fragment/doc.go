// Package fragment says how much a placement spoils: what the free GPUs, CPU and memory of a node are still good for, under the mix of
// requests that arrives.
//
// A Mix counts the requests that were seen; it never comes from a file and is bounded. Target.Fragmentation is the measure of Fragmentation
// Gradient Descent (Weng et al., USENIX ATC'23, section 4) and Target.Gradient its score. Prices is ours: it treats the rest of the cluster as a
// market in which every kind of request has a price that balances what arrives with what fits, finds a node's worth as the best filling at those
// prices, and scores a placement by the worth that it destroys.
//
// Mover makes room for a pod that fits nowhere by moving others, several and one for another if need be; Improve finds the one move that wins the
// most worth. Both only plan, over who runs where. Each step of a plan fits when those before it were done, no node takes two of its pods, and
// everything that is searched has a bound.
//
// Invariants: all functions are pure over Node and Request, except that Prices.Learn replaces the prices; scores are only comparable between
// two calls of Learn; a score exists exactly for what fits; float expressions are written so that they cannot fuse, so that prices are the same on
// every machine. It is not a filter: whether a node may be used for other reasons is place's affair.
package fragment
