// Package scrape reads what the pods of a node tell of themselves in the text format of Prometheus, as far as a ServiceProfile asks for it: a gauge,
// or a quantile of what a histogram has seen since the last scrape.
//
// Data flow: the agent names Targets, each a pod's address and a spec.ProfileMetric; a Scraper asks each address once, keeps only the lines of the
// metrics that are wanted, has expfmt parse those, and answers with one Result for each target. A difference of two scrapes needs the one
// before: the Scraper remembers it for the targets of the last round, and forgets all others.
//
// Invariants: what is not known is said to be so, with an Outcome, which is counted; a pod that does not answer, whose counters went back, or that has
// served no request gives no value, and never zero. Time, bytes, lines, connections and targets are bounded by Params, whatever a pod answers. It
// follows no redirect, uses no proxy, sends no credentials, and asks only addresses that can be a pod's.
//
// It judges no value: that is for the laws in node/advise.
package scrape
