// Package bind is the committer. Plans go in and are committed to the ledger or rejected; API writes come out as data; their results go in
// again. It is a Ready loop like raft's: writes in flight are rows of a table, not goroutines.
//
//	Propose(plan) ── Commit ──▶ queued ──Ready──▶ in flight ──Finish──▶ bound, repeated, read back, or released
//
// # One placement
//
// Each placement of a committed Plan is a row. Committing charges the node in the ledger: the pod is assumed. The row waits in a queue, ordered by priority,
// until fewer than MaxInFlight writes are in flight, then Ready hands out its Binding. Finish takes the result:
//
//   - Written: the pod is bound. The watch may say so first; then the result is ignored.
//   - Refused on the first write: the node is released, and the pod waits in the queue again.
//   - Unknown (a timeout): the row keeps its node and the Binding is repeated on the same node after a pause. The API server binds a pod once, so
//     a repetition is harmless. After MaxAttempts the pod itself is read.
//   - Conflict: some Binding exists already, perhaps ours whose answer was lost. The pod is read.
//
// Only a definite answer releases a node, so a lost response never leads to a second placement.
//
// # Placements with victims
//
// A Plan with victims has three more steps before its Bindings (victims.go). Example: pod p is to replace pod v on node n.
//
//	WriteNomination  p  n    users see where p goes, and after a restart Hilbert does too
//	WriteDisruption  v       condition DisruptionTarget, with the reason
//	DeletePod        v       with its own grace period
//	                         the watch sees that v is gone
//	WriteBinding     p  n
//
// The rows of a Plan with several placements form a plan group: no member is bound before the victims of all have left, and if a member loses its
// place all release theirs. A member of a gang that comes later joins the group of the others until that is ready to be bound, or has broken up.
//
// Until then another Plan may replace the placements of the Plan (replace.go): room came up elsewhere, so that no victim has to leave. What a placement
// leaves behind when it is released without a Binding, its nomination, is withdrawn.
//
// # Conditions
//
// Conditions.Set asks for a condition to be written. These writes are coalesced and bounded apart from the Bindings, so that telling users why
// pods wait never delays binding others.
//
// # Owners of writes
//
// A WriteID names the owner of its write, and the owner takes the result. Owners are placements, evictions and conditions here, or another
// package that hands writes to the same shell, such as schedule/relief.
//
// # Parts
//
//	Binder       takes Plans, answers and what the watch has seen, and makes the parts go on
//	placements   the table of rows: queued, in flight, pausing, or waiting
//	row.after…   what the answer to a Binding, a read or a nomination means (answers.go)
//	claims       what must be written about a pod's claims before its Binding, and what the answers mean
//	planGroups   placements that stand or fall together
//	evictions    what is written about each victim, and which placements wait for it
//	giveBacks    claims to be given back after a placement that failed
//	Conditions   what is told to users who wait
//	outbox       the writes that are ready; it numbers them
//
// The parts know the ledger, the table and the outbox, and no more. Where something in one of them has consequences for a placement, it returns them (a nextStep,
// the rows whose victim has left), and the Binder draws them: only it releases a placement or lets one go on.
//
// # Invariants
//
// At most one write about a pod is in flight, conditions apart. Every assumed pod of the ledger has a row here. No victim is deleted before a
// nomination is written, and no pod bound before its victims are gone. At most MaxInFlight nominations, Bindings and reads,
// MaxConditionsInFlight condition writes and MaxEvictionsInFlight writes about victims are in flight.
//
// The package makes no API call, starts no goroutine and reads no clock.
package bind
