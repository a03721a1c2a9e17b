package ledgermetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/schedule/inspect"
)

// The gauges of pods that wait, by the state that they wait in. Dashboards know kube-scheduler's gauge by its name.
var (
	pendingDesc         = prometheus.NewDesc("hilbert_pending_pods", "Pending pods, by the state that they wait in.", []string{"queue"}, nil)
	inFlightDesc        = prometheus.NewDesc("hilbert_bindings_in_flight", "Placements whose Binding the API server has not confirmed yet.", nil, nil)
	upstreamPendingDesc = prometheus.NewDesc("scheduler_pending_pods",
		"kube-scheduler's name for hilbert_pending_pods. What no node could help, be it a gate, a quota or missing members, counts as gated.", []string{"queue"}, nil)
	pendingCollections = []*prometheus.Desc{pendingDesc, inFlightDesc, upstreamPendingDesc}
)

// upstreamQueues are kube-scheduler's queues of pods that wait, by our states. A pod that is placed, or that leaves, does not wait.
var upstreamQueues = map[inspect.WaitingState]string{
	inspect.WaitingActive: "active", inspect.WaitingBackoff: "backoff", inspect.WaitingUnschedulable: "unschedulable",
	inspect.WaitingQuota: "gated", inspect.WaitingGathering: "gated", inspect.WaitingHeld: "gated",
}

// collectPending sends the gauges.
func collectPending(pending map[inspect.WaitingState]int, out chan<- prometheus.Metric) {
	for waits, n := range pending {
		if waits == inspect.WaitingBinding {
			out <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(n))
		} else {
			out <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(n), string(waits))
		}
	}
	collectUpstreamPending(pending, out)
}

// collectUpstreamPending serves the pods that wait under kube-scheduler's name.
func collectUpstreamPending(pending map[inspect.WaitingState]int, out chan<- prometheus.Metric) {
	queues := make(map[string]int)
	for state, queue := range upstreamQueues {
		queues[queue] += pending[state]
	}
	for queue, n := range queues {
		out <- prometheus.MustNewConstMetric(upstreamPendingDesc, prometheus.GaugeValue, float64(n), queue)
	}
}
