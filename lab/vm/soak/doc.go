// Package soak lets a node live through a long random sequence of changes and failures, and judges after each step whether its promises hold.
//
// Data flow: a Sequence says what happens next: pods of all levels are created, resized and deleted; the agent, its watchdog, containerd and the kubelet are
// killed; the agent is stopped by a signal; the disk of its state directory is filled or frozen; the clock jumps; CPUs are lent, and an online service wants them
// back. The test does that to a guest, then reads the cgroups of its kernel, the pods, their events and the CustomNodeResource until Judge finds nothing wrong, or
// a bound is passed.
//
// Invariants: Sequence and Judge are pure. The same seed gives the same sequence, whatever the guest does. Judge takes what the kernel says for true, and what
// the agent reports only for what it says.
//
// It has no code but tests.
package soak
