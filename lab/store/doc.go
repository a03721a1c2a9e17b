// Package store runs the databases that can take etcd's place under a lab's API server: kine, which speaks etcd's protocol, over SQLite or
// PostgreSQL. Hilbert keeps nothing but API objects, so a cluster on another store has to give it the same guarantees; the lab's suites show
// whether it does (make stores).
//
// Example: HILBERT_STORE=sqlite go test ./crash runs the crash test with an API server on kine and SQLite.
//
// Invariants: a Server's processes end with it, and with the process that started it. Each Server has a database of its own, empty at the start
// unless its directory has one. Nothing but this user's processes reaches it: all of its sockets are in a directory that only the owner may enter,
// or have a password.
//
// It is not a deployment: one process, no replication, no backup.
package store
