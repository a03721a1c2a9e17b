// Package egress runs the tests of node/egress on a real kernel.
//
// Data flow: the tests of node/egress that need a guest are compiled, copied into one and run there as root. They build a network inside the
// guest: an uplink with a receiver behind it, two pods with network namespaces of their own, and one in the host's. The receiver counts what
// arrives by sender, while all of them send as fast as they can.
//
// Invariants: ratios are asserted with wide tolerances, because the guest is emulated. What is exact is asserted exactly: no packet of an
// online pod is delayed or dropped, and nothing is left behind in the kernel.
//
// It knows neither Kubernetes nor the agent's loop, and has no code but tests.
package egress
