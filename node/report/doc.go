// Package report turns what the agent knows into the CustomNodeResource, and decides when it is written.
//
// # How it works
//
// Build lays out the machine and what allocate has given away as a tree: sockets, their NUMA nodes by number, and the devices near those by address. Compare says how
// much has changed since the last write: Same, Minor (only people look at it), Major (the scheduler acts on it), or Urgent (less can be lent than reclaimed pods
// were promised, or a pod has to go). A Throttle, fed with that and the time, says when to write: a change if the last write is a write interval ago, an urgent one if it is a
// second ago, and what has not changed after a refresh interval, with jitter, so that the nodes of a cluster do not write at once.
//
// # An example
//
// The write interval is 5 s, the refresh interval 5 min. The last write was at 0 s.
//
//	1 s     a dedicated pod was admitted: Major, so wait until 5 s
//	2 s     online pods wait, two lent cores were taken back: Urgent, so write now
//	330 s   nothing has changed since: write anyway, so that readers see that the node is alive
//
// # What always holds
//
// Equal input gives equal bytes, so that what did not change is not written. kube.NodeNUMANodes reads back what the allocator has. Two writes are never
// nearer to each other than the write interval, unless the later one is urgent, and at most 12 an hour come when only time passes.
//
// It is not a client, and it has no clock: times are arguments.
package report
