// Package quota is the tree of queues: what each is guaranteed and limited to, what its tenants hold, and which namespace feeds which queue.
//
// Three passes make the tree (Tree.rebuild). First every queue is hung below the parent that its facts name; one that names a missing
// parent, or is among its own ancestors, hangs below the root and refuses new units. Then, from the leaves up, each queue's guarantee is
// what it names, and of other resources what its children ask (measure). Last, from the root down, children that together ask more than
// their parent has get their proportion (share). For example, a parent with 10 CPUs and children that ask 15 and 5 gives 7.5 and 2.5.
//
// A pod is charged to its namespace's account (Tenant), to the queue that the namespace feeds, and to all queues above. Admits asks the same
// path from the bottom up whether every limit leaves room.
//
// What always holds: a queue's use is the sum of its tenants' and its children's; children are never guaranteed more than their parent; a
// guarantee never exceeds a limit. Tree.Verify recomputes all of it.
//
// The package does not decide which unit is next (that is schedule/queue), and knows neither nodes nor the ledger, which owns the one Tree.
package quota
