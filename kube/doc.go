// Package kube is the door to a real cluster and the sole owner of client-go: it turns what the API server says into cluster.Events,
// and bind.Writes into API calls.
//
// Data flow: a Watch lists and watches nodes, pods and what pods' constraints speak of, a Parser turns each object once into the ledger's
// vocabulary, and the Events wait in a bounded channel for the one goroutine that owns the scheduler. That goroutine hands Writes to a
// Writer, whose fixed pool of workers answers each with exactly one bind.Result. An Elector holds the Lease that makes one process the
// leader, and its Fence bounds every byte that the Writer sends.
//
// Invariants: a Replace is a consistent list; an Event is never lost or reordered within one resource; no write leaves this process
// unless the leadership outlasts it (Fence); an unreachable API server means waiting with a bounded backoff, never an exit.
//
// It is not a cache of API objects: what placement does not look at is dropped at the door. It decides nothing.
package kube
