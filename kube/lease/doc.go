// Package lease makes one process the leader, and stops its writes before another one can lead.
//
// An Elector campaigns for a coordination.k8s.io Lease and yields a Term. A Lease alone is no fence: a process can freeze after it looked at the
// Lease and before it sends. So every write goes through connections of the Fence, which checks the time at each system call:
//
//	t=0 s   the request that renews the Lease is sent; the Fence counts from here
//	t=5 s   renewDeadline 10 s minus writeTimeout 5 s: from here on no write starts
//	t=10 s  renewDeadline: the Term is lost, the Fence shuts and closes its connections
//	t=15 s  leaseDuration: another process may take the Lease; it waits one writeTimeout more before it commits
//
// Invariants: no byte of a write leaves this process unless the leadership outlasts the write; a connection of an earlier Term never writes
// again; the Lease is given back only once every write has been answered.
//
// A Holder is what the Lease's holderIdentity says about where the leader serves. The package sends no writes itself, except to the Lease.
package lease
