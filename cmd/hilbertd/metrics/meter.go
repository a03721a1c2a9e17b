package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cmd/hilbertd/reports"
	kubemetrics "hilbert.dev/hilbert/kube/metrics"
)

// meter exports what the role metrics does.
type meter struct {
	role     *role
	receiver *reports.Receiver
	answers  *prometheus.CounterVec
	history  *prometheus.CounterVec
	holders  atomic.Pointer[map[string]kubemetrics.Holder]
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hilbert_metrics_"+name, help, labels, nil)
}

var (
	reportsDesc  = desc("reports_total", "Reports of agents, by result: taken, refused (of who is no agent), bad (not read), limited (too soon, or too many at once).", "result")
	reportedDesc = desc("reported_pods_total", "Pods in reports, by result: taken, unknown (the API server has not told of them), foreign (they run on another node).", "result")
	podsDesc     = desc("pods", "Pods that exist.")
	knownDesc    = desc("known_pods", "Pods of which something is known that may be answered.")
	profilesDesc = desc("profiles", "Workloads of which forecasts are made.")
	leftDesc     = desc("left_out_total", "What found no place within a bound: containers (peaks of containers beyond 16 of one pod) and forecasts (answers with the live load alone, because there are metrics.maxForecasts and no namespace has more than the one that asks).", "bound")
	groupDesc    = desc("api_service", "1 for whom an APIService of the metrics APIs leads to: hilbert, other or none.", "name", "holder")
)

// Described is the collector of this role, of no process: it describes its metrics, for the reference, and must not collect any.
func Described() prometheus.Collector { return newMeter(nil, nil) }

func newMeter(m *role, r *reports.Receiver) *meter {
	return &meter{
		role: m, receiver: r,
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_metrics_answers_total", Help: "Questions of autoscalers and others, for pods or for a workload, by result: answered, or unknown, for which they got an error.",
		}, []string{"of", "result"}),
		history: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_metrics_history_questions_total", Help: "Questions to the history server, by result: answered or failed.",
		}, []string{"result"}),
	}
}

func (m *meter) answered(of string, err error) {
	result := "answered"
	if err != nil {
		result = "unknown"
	}
	m.answers.WithLabelValues(of, result).Inc()
}

func (m *meter) asked(err error) {
	result := "answered"
	if err != nil {
		result = "failed"
	}
	m.history.WithLabelValues(result).Inc()
}

func (m *meter) setHolders(h map[string]kubemetrics.Holder) { m.holders.Store(&h) }

// Describe implements prometheus.Collector.
func (m *meter) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{reportsDesc, reportedDesc, podsDesc, knownDesc, profilesDesc, leftDesc, groupDesc} {
		out <- d
	}
	m.answers.Describe(out)
	m.history.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *meter) Collect(out chan<- prometheus.Metric) {
	m.role.mu.Lock()
	pods, known := m.role.store.Counts(time.Now())
	profiles, left := m.role.store.Profiles(), m.role.store.LeftOut()
	m.role.mu.Unlock()
	for desc, value := range map[*prometheus.Desc]int{podsDesc: pods, knownDesc: known, profilesDesc: profiles} {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value))
	}
	out <- prometheus.MustNewConstMetric(leftDesc, prometheus.CounterValue, float64(left.Containers), "containers")
	out <- prometheus.MustNewConstMetric(leftDesc, prometheus.CounterValue, float64(left.Forecasts), "forecasts")
	for desc, counts := range map[*prometheus.Desc]map[string]int64{reportsDesc: m.receiver.Results(), reportedDesc: m.receiver.Pods()} {
		for result, n := range counts {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), result)
		}
	}
	if holders := m.holders.Load(); holders != nil {
		for name, holder := range *holders {
			word := "other"
			switch holder {
			case kubemetrics.Ours:
				word = "hilbert"
			case "":
				word = "none"
			}
			out <- prometheus.MustNewConstMetric(groupDesc, prometheus.GaugeValue, 1, name, word)
		}
	}
	m.answers.Collect(out)
	m.history.Collect(out)
}
