// Package crash shows that hilbertd survives being killed and frozen at any moment: nothing is lost and nothing is booked twice.
//
// Its test runs two hilbertd processes, a leader and a standby, on a real control plane, and strikes one of them while a batch of
// pods is being bound: kill -9 and a new process, or a freeze of two lease durations. Each batch comes with nodes that it fills
// almost to the last core and GPU, so that a pod that is placed twice, or on state that was out of date, over-commits a node.
//
// The judge takes nothing from hilbertd: it adds up requests per node, and GPU by GPU, from what the API server says, at every
// event of a watch and once more from a fresh list at the end.
package crash
