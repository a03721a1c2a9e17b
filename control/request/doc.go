// Package request decides which pods answer ResourceRequests: what an application master asks for, in its own terms.
//
//	ResourceRequests, their pods ─▶ State.Decide ─▶ []Action: Gather, Create, Delete, Status
//
// A container that is asked for is a slot: an ask of a request, and an index. Its pod has a name that follows from the request's UID, the ask and the index, so that an API server holds
// at most one pod of a slot, whatever is decided twice: by a leader that sees too little, or by two.
//
//	Waiting ─▶ Allocated (it has a node) ─▶ Running ─▶ Succeeded
//	   ▲            │ failed, gone               │
//	   └─ Backoff ◀─┴────────────────────────────┘ ─▶ Failed, when there were too many failures
//	any ─▶ Releasing ─▶ Released
//
// A pod cannot be changed, so one that has waited long enough for its nodes is deleted, if it has no node at the version that was seen, and made anew for the racks; later for anywhere.
//
// Data flow: kube/requests shows what it sees of requests and their pods, carries the actions out, and says by Done what came of them. Statuses are what a new leader goes on from.
//
// Invariants: of an ask there are never more pods than its count, nor one of an index that was released, once it is gone; what cannot be seen to be absent is not made; the pods that wait in a
// namespace are bounded by Params alone, and no namespace is served twice before each was served once; a failure counts once. The package reads no cluster and keeps no clock.
package request
