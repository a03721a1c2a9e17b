// Package events decides which Events are written: about pods and gangs that wait, were placed or were preempted (Pods), and what nodes' agents have to tell people (Recorder), who so need
// not be allowed to: an Event says nothing that the API server could check against the node of its writer.
//
// Data flow of Pods: the scheduler says why each pod waits, whenever it sets the pod's condition; the first message is written at once, then the newest after five
// minutes.
//
// Data flow of the Recorder: an agent's report lists up to spec.MaxNodeEvents events, each with a count. The ledger has the newest report of each node. The Recorder creates an
// Event for each that is new, and counts on in those that repeat, each at most once in five minutes.
//
// Example: the agent of n1 reports PromiseMoved of pod p. An Event of p is created. Two minutes later the report says that it was so three times; three minutes
// after that the Event says so too. A new leader creates the Event again, under the same name, and learns that it is there.
//
// Invariants: both have budgets, so that telling never holds up placing; an event that an agent reports about a pod is written only while the pod is on the node that reports it, under the UID that it names, so that a node speaks of its own
// pods alone; at most MaxInFlight writes are under way; all nodes together write eventsPerSecond, one node ten at once and then one a minute; nodes take turns.
// What is remembered is bounded by the reports.
//
// It is not for Events about evictions, which are with the decisions that they tell of (schedule/relief). It makes no API call and reads no clock.
package events
