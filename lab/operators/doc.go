// Package operators tests that Hilbert places the pods of other people's operators: the operators' own programs, built from their modules, run against the lab's API server, with their
// own definitions and webhooks.
//
// Data flow: a test builds an operator in its module (lab/operators/NAME, so that its dependencies are nobody else's), installs its definitions and webhooks from the module's files,
// runs it as a process, and creates an object of its. What the operator makes of it are pods that name Hilbert's scheduler. The test sees them
// wait, with no scheduler there at all, and only then runs Hilbert: so a pod that is bound was bound by Hilbert.
//
// Invariants: an operator is changed in nothing but where its webhooks are reached (loopback instead of a Service). A pod that is bound too early or never fails the test.
//
// It has no code but tests.
package operators
