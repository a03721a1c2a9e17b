// Package interference tells whether a service is harmed by what runs beside it, which neighbour it is, and what to do.
//
//	Window: load, run delay, pressure, indicator; use of neighbours ─▶ Watch ─▶ []Action
//
// A service waits more when it has more to do. So each signal is compared with a baseline at the same load: bins of load, with the mean and the usual
// deviation of each. What is beyond that is a residual. It has to be high in three windows in a row before anything is said: then the neighbour is named
// whose use goes with the residuals of the last windows.
//
// Ladder: growth stops, then the culprit gets less CPU, then it is evicted, and the scheduler is told for a time not to place the two beside each other.
// Each step waits whether the one before has helped. What is quiet for long is taken back. A limit makes a culprit use less whether or not the harm stays, so
// that one who is limited is judged by its use before the limit too; a neighbour that is nearly as likely is limited first, before anybody is evicted.
//
// State is what a Book has learned, for the agent that starts next:
//
//	data, err := json.Marshal(book.State())      // when the agent ends
//	services, err := next.Restore(&state, now)   // ErrStale: it is too old, and what is usual is learned anew
//
// Invariants: a window in which a signal is not known raises no alarm by it, and is not calm. What is not known is never taken for none: of memory bandwidth it
// is taken for the most that there can be. Baselines learn from quiet windows alone. Nothing is done to a neighbour without a name; nobody is evicted who was not
// limited in vain, nor two within Rules.EvictPause, restarts included. Every Action says why. The same windows give the same actions.
//
// The package reads no counters: the agent brings them, by windows of some seconds.
package interference
