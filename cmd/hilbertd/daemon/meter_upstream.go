package daemon

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Dashboards and alerts know kube-scheduler's metrics by name. Those that mean the same here are served under these names too, beside ours; what means something else
// (attempts whose time includes the Binding, attempts to preempt that find nobody, plugins, extension points) is not.
var (
	upstreamAttemptsDesc = prometheus.NewDesc("scheduler_schedule_attempts_total",
		"kube-scheduler's name for hilbert_scheduling_attempts_total. A pod for which others have to leave counts as unschedulable, and a Plan that the committer rejected as error, as there.", []string{"result"}, nil)
	upstreamSLIDesc = prometheus.NewDesc("scheduler_pod_scheduling_sli_duration_seconds",
		"kube-scheduler's name for hilbert_pod_scheduling_sli_duration_seconds. Without the label attempts.", nil, nil)
)

// upstreamResults are kube-scheduler's results of an attempt, by ours.
var upstreamResults = map[string]string{"scheduled": "scheduled", "unschedulable": "unschedulable", "preempting": "unschedulable", "rejected": "error"}

// upstreamNames serves the meter's own metrics under kube-scheduler's names.
type upstreamNames struct {
	attempts *prometheus.CounterVec
	sli      prometheus.Histogram
}

// Describe implements prometheus.Collector.
func (u upstreamNames) Describe(out chan<- *prometheus.Desc) {
	out <- upstreamAttemptsDesc
	out <- upstreamSLIDesc
}

// Collect implements prometheus.Collector.
func (u upstreamNames) Collect(out chan<- prometheus.Metric) {
	results := make(map[string]float64)
	for ours, theirs := range upstreamResults {
		results[theirs] += read(u.attempts.WithLabelValues(ours)).GetCounter().GetValue()
	}
	for result, n := range results {
		out <- prometheus.MustNewConstMetric(upstreamAttemptsDesc, prometheus.CounterValue, n, result)
	}
	sli := read(u.sli).GetHistogram()
	buckets := make(map[float64]uint64, len(sli.GetBucket()))
	for _, b := range sli.GetBucket() {
		buckets[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	out <- prometheus.MustNewConstHistogram(upstreamSLIDesc, sli.GetSampleCount(), sli.GetSampleSum(), buckets)
}

// read returns what a metric says now.
func read(m prometheus.Metric) *dto.Metric {
	var said dto.Metric
	_ = m.Write(&said) // metrics of the client library write into memory
	return &said
}
