// Package daemon is hilbertd: it wires the pure scheduler to the real door and keeps it running.
//
// One goroutine, the loop, owns the schedule.Scheduler and is the only one to call it: it applies events, makes decisions, starts writes
// and takes their answers. Everything else (watches, writes, the Lease, HTTP) runs beside it and speaks to it through bounded channels.
//
// A process follows (applies events, decides nothing) until it wins the Lease; then it waits until no write of the last leader can be
// under way, lists everything anew, and leads. When it loses the Lease it waits for its own writes, drops all state and follows again.
//
// Invariants: no decision before a consistent list of this leadership; no write while the fence is shut; every write's answer is awaited
// before the Lease is given back; an unreachable API server is waited for, never a reason to exit.
//
// With the role agent it is a node's agent instead (agent*.go): it puts the kernel, the container runtime and the API server at the ports of
// node.Agent and serves what that says. One agent runs on a node at a time; without cgroup v2 none does; without an API server it does
// all but report. It ends by itself only when the kubelet's managers have been switched on or off, to be started again.
//
// It holds no scheduling policy, and no client: those are schedule's and kube's.
package daemon
