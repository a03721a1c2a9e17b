// Package schedule is the pipeline: events in, decisions, API writes out.
//
//	Apply(event) ▶ cluster.Store ▶ queue ▶ Step: dispatch ▶ place (Snapshot → Plan) ▶ bind (Commit or Reject) ▶ Ready: writes ▶ Finish
//
// It is one single-threaded state machine. A shell (hilbertd over kube, or the simulator) feeds it events, results and the time; the
// same inputs give the same outputs. Several scheduler instances can propose to the one binder, each on its own Snapshot.
//
// A unit, one pod or a gang, is decided, committed and told as a whole. One that has waited long has nodes and limits kept for it
// (reserve.go); one that holds places in part is mended or given up (patience.go); of those who sleep as many are woken as there is room for
// (hope.go).
//
// Invariants: a pod of ours that waits is in exactly one of queue, binder or held (Verify checks it); a shape that fits nowhere is tried
// again only after a change on a node that would now take it, or of what its queue is owed; a rejected unit is decided again only on a
// snapshot that has seen the revision which the rejection named.
//
// It performs no I/O, starts no goroutine and reads no clock.
package schedule
