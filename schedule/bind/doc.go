// Package bind is the committer as a Ready loop: Plans go in and are committed to the ledger or rejected, API writes come out as data,
// their results go in again. Writes in flight are rows of a table, not goroutines.
//
//	Propose(plan) ── Commit ──▶ queued ──Ready──▶ in flight ──Finish──▶ bound, repeated, read back, or released
//
// A Plan with victims begins with its obligations (evict.go): the nomination is written, the victims are evicted, and when the watch has
// seen them gone the Binding is queued.
//
// A Binding whose outcome is unknown keeps its node: it is repeated on the same node (the API server binds a pod once), and after
// MaxAttempts the pod itself is read. Only a definite answer releases the node, so a lost response never leads to a second placement.
//
// Invariants: at most one write about a pod is under way, conditions apart; every Assumed pod of the ledger has a row here; no victim is
// deleted before a nomination is written, and no pod bound before its victims are gone; at most MaxInFlight nominations, Bindings and
// reads, MaxConditionsInFlight condition writes and MaxEvictionsInFlight writes about victims are under way.
//
// It makes no API call, starts no goroutine and reads no clock.
package bind
