// Package schedule is the pipeline: events in, decisions, API writes out.
//
//	Apply(event) ▶ cluster.Store ▶ queue ▶ Step: dispatch ▶ place (Snapshot → Plan) ▶ bind (Commit or Reject) ▶ Ready: writes ▶ Finish
//
// It is one single-threaded state machine. A shell (hilbertd over kube, or the simulator) feeds it events, results and the time; the
// same inputs give the same outputs. Several scheduler instances can propose to the one binder, each on its own Snapshot.
//
// Invariants: a pod of ours that waits is in exactly one of queue, binder or held (Verify checks it); a class that fits nowhere is tried
// again only after a change on a node that would now take it; a rejected unit is decided again only on a snapshot that has seen the
// revision which the rejection named.
//
// It performs no I/O, starts no goroutine and reads no clock.
package schedule
