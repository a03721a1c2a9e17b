// Package kube is the door to a real cluster and the sole owner of client-go: it turns what the API server says into cluster.Events,
// and bind.Writes into API calls.
//
// Data flow: a Watch lists and watches nodes, pods and what pods' constraints speak of, a Parser turns each object once into the ledger's
// vocabulary, and the Events wait in a bounded channel for the one goroutine that owns the scheduler. That goroutine hands Writes to a
// Writer, whose fixed pool of workers answers each with exactly one bind.Result. An Elector holds the Lease that makes one process the
// leader, and its Fence bounds every byte that the Writer sends.
//
// A unit is a PodGroup: of scheduling.k8s.io in the newest version that is served and known, and of scheduling.x-k8s.io. Both can be
// there at once; their names are one space, in which the first comes before the second. A pod is a member of the PodGroup that its spec
// names, else of the one that its label does. Workload objects are not read: a PodGroup has a copy of all that its Workload says, and pods
// name nothing else. An API that is not served is like one without objects, is looked for again every half minute, and is watched when it
// comes.
//
// Invariants: a Replace is a consistent list; an Event is never lost or reordered within one resource; no write leaves this process
// unless the leadership outlasts it (Fence); an unreachable API server means waiting with a bounded backoff, never an exit.
//
// It is not a cache of API objects: what placement does not look at is dropped at the door. It decides nothing.
package kube
