// Package lock tests the worst case of colocation: reclaimed tasks that nearly always hold or want a kernel lock that the online service needs
// too, here the mutex of a directory in which both rename files.
//
// A task that holds the lock and gets no CPU blocks everybody else who wants it. The test therefore watches the online server's latency while
// the reclaimed pod is reduced from what was lent to it down to its floor. Two controls leave it even less: a tiny cpu.max, and no CPU of its
// own beside online pods that are always busy.
//
// Invariants: online and reclaimed pods share one directory of a tmpfs, so that no disk and no journal takes part. The controls write to the
// kernel while the agent is stopped, and undo it before the agent starts again. The package has no code but tests.
package lock
