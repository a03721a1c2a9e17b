// Package egress holds the test of node/egress on a real kernel.
//
// Data flow: the tests of node/egress that need a guest are built as they are, brought to one, and run there as root. They make a network of
// their own in it: a world behind an uplink, two pods with a network namespace each, and one in the host's. What arrives in the world is
// measured there, by sender, while all of them send as fast as they can.
//
// Invariants: ratios are asserted within wide bands, for time in the guest is emulated; what is exact (nothing of online pods is delayed or
// dropped, nothing is left behind) is asserted exactly.
//
// It knows neither Kubernetes nor the agent's loop, and has no code but tests.
package egress
