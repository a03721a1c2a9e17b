// Package moves shows that running pods are moved with their targets reserved first, on a real API server.
//
// Its test fragments hollow nodes: a pod of one GPU is left on each. A gang that needs whole nodes fits nowhere. The role controller, as the account of deploy/controller, finds
// out by a snapshot of the leading scheduler which pods to move, reserves their targets, evicts them, and their replacements take the reservations; then the gang runs. On the
// way the leading controller ends and another one goes on.
//
// TestRecordedDay does it at scale: 500 nodes of a recorded cluster, on which a day of its pods has come and gone. It is skipped where there are no traces. TestLostTargets loses targets after the
// eviction, to a node that dies and to a foreign binder.
//
// The judge takes nothing from hilbertd: it follows pods and Reservations by watches, whose versions have one order, and says of each pod that is being deleted whether its target was
// reserved before.
package moves
