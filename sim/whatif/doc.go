// Package whatif answers what the scheduler would do if a cluster changed: with more pods, or without some nodes.
//
// NewForecast loads a dump of hilbertd (hilbert snapshot) into a scheduler of its own, applies the Change, and lets the production pipeline run
// against an API server that does at once what it is told. For example, with Change{Drain: ["node-7"]} the pods of node-7 are created again without a
// node, the scheduler places them, and the Forecast lists where each one went, which were evicted to make room, and which fit nowhere.
//
// Invariants: the dump is not changed; the same dump and Change give the same Forecast; schedule.Scheduler.Verify holds at the end.
//
// It models no time: pods that wait for a timer wait here too, and nothing arrives or ends meanwhile.
package whatif
