// Package ledgermetrics serves what the scheduler and its ledger know as Prometheus metrics: nodes, pods that wait, queues and gangs, NUMA nodes, GPUs,
// what nodes lend, several schedulers, and the bounds on what one namespace may take of the scheduler.
//
// The scheduler belongs to one goroutine. That goroutine takes a [Sample], which shares nothing with the scheduler; whoever answers a scrape sends it.
// Taking one looks at each node a few times, and at no pod:
//
//	answered := loop.ask(timeout, func() { sample = ledgermetrics.Take(scheduler) })
//	sample.Collect(out)
//
// Times and counts of what the process does, such as attempts and their durations, are not here: package daemon counts them as they happen.
package ledgermetrics
