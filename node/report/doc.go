// Package report turns what the agent knows into what it says of its node, and decides when to say it.
//
// Data flow: Build lays the machine and what allocate has given away out as the tree of a CustomNodeResource; Compare says how much of it
// has changed since the last write; a Throttle, fed with both and the time, says when to write. The node's loop hands what is due to kube.
//
// Invariants: equal input gives equal bytes, so that what did not change is not written. The tree is sockets, their NUMA nodes by number,
// and the devices near those by address; kube.ParseNodeReport reads back what the allocator has. A Throttle never lets two writes be
// nearer to each other than its write interval, and lets 12 an hour through when only time passes.
//
// It is not a client, and it has no clock: times are arguments.
package report
