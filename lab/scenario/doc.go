// Package scenario plays the simulator's scenario files (*.scn) on a real API server: hollow nodes, a hilbertd in this process, and PodGroups,
// Queues and pods as users would create them. A file must print here what it prints in the simulator; a difference is a bug of one of the two.
//
// What the simulator does in one instant takes time here, and the scheduler must not act in between. So while the player carries out commands,
// it keeps the scheduler from renewing its Lease: the scheduler sees every event, and its fence stops it from writing. Virtual time stands
// still meanwhile. It passes during run commands, at the speed that the file's header names, and a run ends when nothing changes any more.
//
// Invariants: every answer is read from the API server; no node ever holds more than it has.
//
// It does not play the simulator's faults, nor days of virtual time: such a file says so in its header (see Header).
package scenario
