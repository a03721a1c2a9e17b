// Package moves plays moves of running pods, and the Reservations that keep their targets, with the production code: the scheduler, the rehearsals, and what carries moves out.
//
// A run is a small cluster with GPUs under one seed: nodes, workloads of one pod, whose controllers make a replacement when a pod is gone, and pods that wait. Every ten seconds of virtual
// time moves are planned from a snapshot of the scheduler, and each second the moves on their way are looked at, by what the API server has, as the role controller does. Faults strike between: watches
// lag, writes are lost or their answers are, the leader of the schedulers ends and the next one starts from lists, the leader of the controllers ends and the next one adopts, a foreign
// binder takes room that is kept, nodes die, disruption budgets refuse.
//
// What is checked, at the API server's objects:
//
//   - nobody is evicted whose target is not Reserved in the status of its Reservation;
//   - a Binding that names a place is of an owner, is of a place that is there, and no two pods that run have one place;
//   - a place in a status goes forward only;
//   - the scheduler over-commits no node that no foreign binder has, and gives nobody else room that a status says is kept, unless by priority;
//   - of a gang nobody is evicted before all of its places are Reserved, in the domain that it requires; once one is, all are;
//   - what replaces a pod whose target was lost has its turn before others of its priority;
//   - every eviction ends: the replacement has the target, or the target was lost and is counted, or no replacement came;
//   - at rest nothing is left of moves, all workloads have their pods that fit, and the ledger's sums hold;
//   - without faults no target is lost.
package moves
