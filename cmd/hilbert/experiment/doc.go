// Package experiment has the commands of hilbert sim that measure: "sim experiment dlrm", "numa" and "openb", and "sim colocation".
//
// Each command reads flags and traces, runs an experiment of package sim/... and prints a table or JSON; with --report it also writes a page with
// pictures. Flags are validated before the work begins, because a run can take an hour.
//
// Invariants: the same seed and the same files give the same figures; progress goes to standard error, so that standard output is the result alone.
//
// It computes nothing: the models are in sim/affinity, sim/numa, sim/packing and sim/colocation.
package experiment
