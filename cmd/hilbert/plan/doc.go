// Package plan is hilbert plan: it shows what could be changed in a cluster, and changes nothing.
//
// NewCommand is the subcommand. For example, plan moves reads a snapshot and shows which pods could be moved so that a pod fits that waits, and plan target relates a
// service's indicator to what the system measured, and proposes a target for its ServiceProfile.
//
// Invariants: what is shown was decided by the same pure functions that the controllers use, with the same bounds; all input comes from files. The package holds
// flags and their text only: packages control and sim/whatif decide.
package plan
