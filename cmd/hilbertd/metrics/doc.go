// Package metrics is hilbertd with the role metrics: it answers autoscalers from what agents send.
//
// Run takes the agents' reports, follows the pods that they are about, and serves the metrics APIs behind kube-apiserver's proxy. Each replica does so for itself: none leads.
// For example, an agent reports what the pods of Deployment web use, and a HorizontalPodAutoscaler that asks for hilbert_cpu_use_forecast of web gets the larger of the live value and the forecast.
//
// Invariants: what is not known is an error and never a zero, so that autoscalers hold; an APIService that leads to another server is left as it is; profiles on disk are a help
// and no need: a process without them makes its forecasts anew.
//
// The package keeps no history of metrics and decides nothing itself: package control/metrics has what is known, package kube/metrics the API.
package metrics
