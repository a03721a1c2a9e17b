// Package simulation is hilbert sim: it replays a trace, a synthetic workload or a scenario on a virtual clock, or says what the scheduler would do next.
//
// NewCommand is the subcommand; the experiments below it are package experiment's. Each way to use it reads its input, runs package sim or sim/whatif, and shows the
// report as text or JSON. For example, with --seeds 100 it runs a hundred seeds, and a failure prints the one line that repeats it.
//
// Invariants: the same flags and seed give the same digest on any machine, so what depends on the machine (progress, memory, CPU time) goes to stderr or is
// marked as such. It asks no API server: --from reads what hilbert snapshot wrote.
package simulation
