// Package history asks a server that speaks Prometheus' HTTP API what workloads used in the weeks before.
//
// Data flow: the role metrics begins a profile of a workload, asks once what was before, and gives the answer to control/metrics' Store. That is POST /api/v1/query_range with the
// query of the configuration, in which the workload's names stand quoted.
//
// Invariants: a question is bounded in time, an answer in bytes and points. An answer that is not one series is an error, and no series at all is no load, never a load of
// zero. It follows no redirect with the token.
//
// It keeps nothing and tries nothing again: the caller does.
package history
