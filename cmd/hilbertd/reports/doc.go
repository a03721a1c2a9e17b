// Package reports carries what pods use from nodes' agents to the role metrics.
//
//	Sender (agent) ── POST /v1/reports, token, TLS ──▶ Receiver (every replica of the role metrics)
//
// A Sender gathers readings, and sends a report to each address of the role each interval. What cannot be sent is dropped: the next report is a few seconds newer. A Receiver asks
// who sends, and hands the report on.
//
// Invariants: an agent sends its token to nobody whose certificate it does not know. A report counts for the node that its token names, whatever it says. One report
// of a node is taken in a second; reports are bounded in bytes, and in how many are read at once.
//
// The package judges no value: control/metrics does.
package reports
