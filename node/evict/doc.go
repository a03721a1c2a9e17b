// Package evict decides when reclaimed pods must give something back, which of them, and how urgently. It is a pure function
//
//	Step(Observation, Params, State) Decision
//
// of what was seen, so that a recorded log can be replayed, and the simulator runs what nodes run.
//
// # Detectors and pressures
//
// Detectors, the rows of a table (detector.go), turn numbers into pressures: of the node, of a NUMA node, or of one pod. A pressure is Soft or Hard. It comes when
// its reading was past the mark for long enough, and goes when the reading was clear of the mark for ReleaseAfter; one reading changes nothing.
//
// # Escalation
//
// A pressure escalates in steps, each of which may be enough:
//
//  1. Nothing more is lent.
//  2. Memory is reclaimed from the likely victims.
//  3. Soft: a victim is given notice, and after a grace its eviction is requested, if it is still worth it.
//  4. Hard: its eviction is requested at once, urgently.
//  5. Hard, and the API server cannot be reached, or a disruption budget refuses, or the request is not answered in time: the agent stops the pod itself.
//
// Victims are ordered: the lowest priority first, then those that have run for a while, then those that would give back most. What is leaving or was requested
// already counts: no further victim is chosen while that is enough. A node that evicted is closed to reclaimed pods for a while, for longer each time.
//
// # An example
//
// Memory of a node with 100 GiB; soft is below 8 GiB available, hard below 4 GiB. Batch pods a (priority 0) and b (priority 10) hold 10 GiB each.
//
//	0 s    7 GiB available
//	5 s    Soft: nothing more is lent; a quarter of the memory of a and b is ordered to be reclaimed, up to what is needed
//	20 s   still 7 GiB: a has notice
//	50 s   eviction of a requested
//	52 s   a process grows: 3 GiB available
//	54 s   Hard
//	57 s   the request for a becomes urgent
//	72 s   a was not evicted within 15 s: stop a
//
// # What always holds
//
// Only reclaimed pods are victims, whatever a plugin says: what plugins find is one more row of the table, is never hard, and has a bound of its own per hour. So is a pressed network interface. StepOnline says which
// online pods hold more memory than they requested, for people; nothing follows from it. What is not known is no pressure, and nothing is requested because of it. One pod is asked for at a time, and none while
// what was asked for before is enough. At most one pod is stopped in Params.Escalation.StopInterval. Nothing follows from headroom: that it is stale or has
// shrunk evicts no pod.
//
// It acts on nothing: the agent reports requests, hilbertd's leader evicts, node/shrink reclaims memory, and the agent's loop stops a pod.
package evict
