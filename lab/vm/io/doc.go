// Package io runs the test of node/blkio on a real kernel.
//
// Data flow: the test of node/blkio that needs a guest is compiled, copied into one and run there as root. An online and a reclaimed reader,
// each in a pod's cgroup, read the guest's disk past the page cache; the test compares how many blocks each gets in a second.
//
// Invariants: ratios are asserted with wide tolerances, because the guest is emulated. The io.cost model is set far below what the emulated disk
// can do, so that io.cost is the limit and not the host.
//
// It knows neither Kubernetes nor the agent's loop, and has no code but tests.
package io
