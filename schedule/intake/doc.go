// Package intake puts the events that wait for the scheduler in an order in which no namespace waits for the events of another.
//
// Data flow: the process that owns the scheduler adds each event that its watches deliver, and takes from here what it applies next, as many as a turn of its loop
// allows. What is added stays in order but for one thing: pods that wait for a place are taken namespace by namespace in turn. So a pod that comes behind ten thousand of
// another tenant is the next but one.
//
//	added                          taken
//	a1 a2 a3 node b1 a4 bound      node bound a1 b1 a2 a3 a4
//
// What is no waiting pod, such as nodes, pods with a place and the ends of pods, is taken first, for decisions rest on it; but of four events one is a waiting pod, so that
// nobody who changes his running pods all the time holds the others up.
//
// Events of waiting pods do not all cost the same: the terms of a gang's member may be about all pods that wait, which are then judged anew. So turns are of equal cost, not of
// equal number (Judged). What is no waiting pod is taken in its order, whatever it costs.
//
// Invariants: the events of one object are taken in their order, but one that was not taken yet is left out when a later one of the same pod comes, for an event
// says all that is known of a pod. A list is taken after all that was added before it, and before all that comes after. MaxWaiting bounds what waits here; who adds more than
// that waits himself, so that the watches stop reading.
//
// It is not the queue of pods that are to be placed (package queue), and knows no priorities: it says only in which order the scheduler hears of what happened.
package intake
