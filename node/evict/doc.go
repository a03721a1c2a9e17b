// Package evict decides when reclaimed pods must give something back, which of them, and how hard they are asked. It is a pure function
//
//	Step(Observation, Params, Memory) Decision
//
// of what was seen, so that a recorded log can be replayed and the simulator runs what nodes run.
//
// Detectors, the rows of a table, turn numbers into pressures: Soft or Hard, of the node, of a NUMA node or of one pod. Each pressure climbs a
// ladder: nothing more is lent, memory is reclaimed, a pod is given notice, its eviction is requested, and past the hard watermark, where the API
// does not help, it is stopped here. A node that evicted is closed for a while, for longer each time.
//
// Invariants: only reclaimed pods are victims. What is not known is no pressure, and nothing is asked for because of it. One pod is asked for at
// a time, and none while what was asked for before is enough. At most one pod is stopped in Params.Escalation.StopInterval. A pressure neither comes nor
// goes with one reading. Nothing follows from headroom: that it is stale or has shrunk evicts nobody.
//
// It acts on nothing: the agent reports requests, hilbertd's leader evicts, node/shrink reclaims memory, and the agent's loop stops a pod.
package evict
