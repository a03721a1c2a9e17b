// Package io holds the test of node/blkio on a real kernel.
//
// Data flow: the test of node/blkio that needs a guest is built as it is, brought to one, and run there as root. An online and a reclaimed
// reader, each in a pod's cgroup, read the guest's disk past the page cache; the blocks that each gets in a second are compared.
//
// Invariants: ratios are asserted within wide bands, for time in the guest is emulated. The disk's model is far below what the emulated disk
// does, so that io.cost is what limits, and not the host.
//
// It knows neither Kubernetes nor the agent's loop, and has no code but tests.
package io
