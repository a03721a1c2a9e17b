// Package events writes what nodes' agents have to tell people as Events, so that agents need not be allowed to: an Event says nothing that the API server could
// check against the node of its writer.
//
// Data flow: an agent's report lists up to spec.MaxNodeEvents events, each with a count. The ledger has the newest report of each node. The Recorder creates an
// Event for each that is new, and counts on in those that repeat, each at most once in five minutes.
//
// Example: the agent of n1 reports PromiseMoved of pod p. An Event of p is created. Two minutes later the report says that it was so three times; three minutes
// after that the Event says so too. A new leader creates the Event again, under the same name, and learns that it is there.
//
// Invariants: an event about a pod is written only while the pod is on the node that reports it, under the UID that it names, so that a node speaks of its own
// pods alone; at most MaxInFlight writes are under way; all nodes together write eventsPerSecond, one node ten at once and then one a minute; nodes take turns.
// What is remembered is bounded by the reports.
//
// It is not for Hilbert's own events, which are with the decisions that they tell of (schedule/relief). It makes no API call and reads no clock.
package events
