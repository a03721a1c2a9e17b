// Package lock holds the worst case of colocation: reclaimed tasks that nearly always hold or want a lock of the kernel that the online service
// needs too, the mutex of a directory in which both rename files.
//
// Whoever is kept from running while he holds such a lock keeps everybody else from it. So the test looks at the online server's answers while the
// reclaimed pod is driven from what was lent to it down to its floor, and at two ways to hold it down that leave it less: a tiny cpu.max, and no
// CPU of its own beside online pods that are always busy.
//
// Invariants: online and offline pods meet in one directory of a tmpfs, so that no disk and no journal is in it. What the controls write into the
// kernel is written while the agent is away, and taken back before it comes. It has no code but tests.
package lock
