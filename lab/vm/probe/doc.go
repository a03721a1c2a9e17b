// Package probe runs tests of the product's own packages in a guest: tests that need root and a kernel that they may change. They are those of node/blkio,
// where an online and a reclaimed reader share a disk, and of node/egress, where pods send behind an uplink as fast as they can.
//
// Such a test lies beside the code that it tests, and is skipped unless HILBERT_IN_GUEST is set. TestInGuest builds the packages' test binaries from the
// product's module, boots one guest for all of them, runs the tests there, one package after the other, and prints their output. As in package vmtest,
// HILBERT_VM and -short decide whether a guest is booted at all.
//
// The guest has no Kubernetes, so it boots in a third of the time that a node needs. It has one CPU: emulation may lose the timer of one of several, and
// what waits for that waits for ever. The tests assert ratios with wide tolerances, because the guest is emulated, and exactly what is exact.
//
// It has no code but tests.
package probe
