// Package ask is how a subcommand of hilbert gets its answers: the flags that choose an API server, a hilbertd or a file, and the questions that go there.
//
// A subcommand adds the flags of a Hilbertd and calls Pod, Unit, Reservation or Queues. For example, hilbert explain pod web-0 asks the leader through the API server with the
// user's own credentials; with --from FILE the same call is answered from a snapshot, with the same code as in the scheduler.
//
// Invariants: a wrong flag, a file that cannot be read and a name that does not exist each end the program with their own exit code; no credential is sent to a server that
// --server did not name. It renders nothing and has no subcommand.
package ask
