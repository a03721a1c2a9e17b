// Package autoscale tests that upstream's HorizontalPodAutoscaler scales by the role metrics, and leaves everything as it is when that has nothing to say.
//
// Data flow: the lab's control plane runs upstream's controller. hilbertd runs with roles: [metrics] as the account that deploy/metrics gives it, behind the APIServices of that folder. Agents are the
// real sender with tokens of real pods; what they have read of pods is made up by the test. Each metric has a Deployment with an autoscaler of its own.
//
// Invariants: the controller looks each second and scales down at once, so that a metric that read as zero would shrink a Deployment while the test looks. That it would is part of the
// test: at its end, low values do shrink all of them.
//
// It has no code but tests. The agents' readings are tested in package node.
package autoscale
