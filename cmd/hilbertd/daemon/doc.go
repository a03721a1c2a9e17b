// Package daemon is hilbertd: it connects the scheduler, which is pure, to an API server, and keeps it running.
//
// # The loop
//
// One goroutine, the loop, owns the schedule.Scheduler. Only the loop calls it: the loop applies events, makes decisions, starts writes and takes their
// answers. Everything else (watches, writes, the Lease, HTTP) runs in goroutines of its own and talks to the loop through bounded channels:
//
//	kube.Watch ─events─▶ loop ─writes─▶ write.Writer ─answers─▶ loop
//	HTTP       ─ask────▶ loop           lease.Elector ─term──▶ loop
//
// # Following and leading
//
// A process is in one of five phases:
//
//	following    it applies events and decides nothing; another process leads
//	waiting      it has won the Lease, but a write of the last leader may still be under way
//	catching up  its watch has still to tell what the last leader wrote
//	listing      it lists everything again, because that could not be found out, or is quicker
//	leading      it decides and writes
//
// For example, a leader loses its network for a minute. Its fence closes before its Lease expires, so it starts no more writes. Another process wins the
// Lease, waits until the last write of the old leader must have ended, catches up with it and leads. When the old leader is back, it finds that its term is
// over, waits for its own writes, drops all state and follows.
//
// Invariants: no decision before all is known that was agreed on when the term began; no write while the fence is closed; the Lease is given back only when every write is
// answered. An API server that cannot be reached is waited for; it is no reason to exit.
//
// # The other roles
//
// With the role agent or watchdog, the process runs on a node, and package agent has all of it; with the role controller or metrics, the package of that name. What every role serves over HTTPS is in package endpoints.
//
// The package holds no scheduling policy and no API client: package schedule has the one, package kube the other.
package daemon
