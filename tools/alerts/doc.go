// Package alerts tests the alerts that the chart brings along with Prometheus' own rules and query engine.
//
// Data flow: a transcript has series, a value a minute, and the minutes at which the named alert changes; the test loads the file of rules as Prometheus does, gives it the
// series minute by minute, and prints each change. Every alert has a case in which it fires and one in which it never does.
//
// Invariants: the rules are read from the chart's file itself, and nothing is restated here. The package has no code but tests, and a module of its own: Prometheus must not become
// a dependency of anything else.
package alerts
