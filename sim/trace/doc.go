// Package trace turns recorded or invented workloads into one neutral form: nodes, and tasks with what they ask for and when they come
// and go. It reads the openb (2023) and DLRM (2025) cluster traces and invents synthetic ones from a seed.
//
// Invariants: a Workload that a reader returns is sound (names are unique, amounts are not negative, nothing is deleted before it is
// created, tasks stand in order of creation); tasks with equal requirements share one Requirements; a mistake in a file is an *Error
// that names file, line and column, what was wanted and what was found. Only integers decide, so a seed gives the same Workload on any
// machine.
//
// It is not the simulation: it knows no scheduler and no clock.
package trace
