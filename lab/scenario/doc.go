// Package scenario plays the simulator's scenario files (*.scn) on a real API server: hollow nodes, a hilbertd in this process, and PodGroups,
// Queues and pods as people would create them. What a file prints there must be what it prints in the simulator; a difference is a bug of
// one of the two.
//
// What the simulator does at one instant takes a while here, and the scheduler must not act in between: while commands are carried out,
// its Lease cannot be renewed, so that its own fence keeps it from acting though it hears of everything. Virtual time stands still then. It
// passes during run commands, at the pace that the file's header names, and a run ends when nothing moves any more.
//
// Invariants: every answer is read from the API server; at no look at it does a node hold more than it has.
//
// It does not play the faults of the model, and no days of virtual time: such a file says so in its header (see Header).
package scenario
