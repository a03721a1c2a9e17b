// Package metrics says what the pods of workloads use, and how long they wait, as far as that is known now.
//
//	readings ─▶ Collector ─▶ Report ─▶ Store ─▶ Pods, Workload, Wanted
//	(a node's agent)         (sent)    (the metrics role)
//
// A Collector keeps a Distribution of each Metric for each pod of a node, and hands them out as a Report every few seconds. A Store takes Reports from all nodes and knows which pods there are.
// It answers for single pods, and for workloads as a whole: a sum, a mean, a quantile over all readings, or the highest. For workloads that somebody asked a forecast of, it
// keeps a profile of fixed size, and answers the greatest of the live value and a trusted forecast.
//
// Invariants: Distributions merge in any order and grouping to the same result. What is not known is an error with the reason, and never zero. A value older than Params.StaleAfter is not
// answered. A node speaks of its own pods only. A workload is answered for only while most of its pods are known. What is kept is bounded by the pods that exist,
// and by Params.MaxProfiles.
//
// The package reads no cluster and serves nothing: kube/metrics does.
package metrics
