// Package metrics is what the role metrics asks of the API server, and how it serves upstream's metrics APIs behind it.
//
//	Server   custom.metrics.k8s.io/v1beta2 and external.metrics.k8s.io/v1beta1: discovery, who asks, whether they may, and the answer's form
//	WatchPods which pods there are, where they run, and what they belong to
//	Nodes    the node that an agent's token names
//	Groups   whose Service the APIServices of these groups lead to
//
// Data flow: cmd/hilbertd keeps control/metrics' Store up to date from WatchPods and from agents' reports, and gives it to Server as its Values.
//
// Invariants: who asks is known by the front proxy's certificate alone, as for the group visibility.hilbert.dev. A question without an answer gets an error, and never an
// empty list or zero; the error does not ask clients to try again, for they would hold up an autoscaler. Nothing is written to the API server but reviews.
package metrics
