// Package demo runs Hilbert's main job on a real control plane and records what happened: it starts the control plane, hollow nodes
// and hilbertd in this process, gives them work (the manifests of examples, or the tasks of a recorded trace), watches the pods, and
// ends with a report.Run.
//
// Invariants: every figure is what one watch of the API server showed, with the time at which it was seen; nothing is taken from the
// scheduler's own account. hilbertd runs as a user of its own that is granted kube.Permissions and nothing more. A run that ends
// early (a part died, the time is over, somebody interrupted it) still yields its record so far, and says so in it. Everything that
// Start began is ended by Stop.
//
// It is not a benchmark: client, server and scheduler share the process (package bench keeps them apart).
package demo
