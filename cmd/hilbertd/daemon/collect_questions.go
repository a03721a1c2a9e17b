package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/kube/visibility"
)

// The metrics of what keeps those who ask from taking the process's memory, and the API server's time.
var (
	reviewsDesc = prometheus.NewDesc("hilbert_reviews_total", "Questions about who asks and what they may, by kind (token, access) and outcome: asked (the API server) or refused (with 429, because too many were new: 5 unknown tokens or 50 rights a second).", []string{"kind", "outcome"}, nil)
	tooManyDesc = prometheus.NewDesc("hilbert_answers_refused_total", "Questions of the aggregated API that were refused with 429, because two answers were being made.", nil, nil)
)

// questionMeter collects them.
type questionMeter struct {
	inspector *inspector
	reviewer  *visibility.Reviewer
}

// Describe implements prometheus.Collector.
func (m questionMeter) Describe(out chan<- *prometheus.Desc) {
	out <- reviewsDesc
	out <- tooManyDesc
}

// Collect implements prometheus.Collector.
func (m questionMeter) Collect(out chan<- prometheus.Metric) {
	for kind, name := range map[visibility.ReviewKind]string{visibility.TokenReviews: "token", visibility.AccessReviews: "access"} {
		asked, refused := m.reviewer.Counts(kind)
		out <- prometheus.MustNewConstMetric(reviewsDesc, prometheus.CounterValue, float64(asked), name, "asked")
		out <- prometheus.MustNewConstMetric(reviewsDesc, prometheus.CounterValue, float64(refused), name, "refused")
	}
	out <- prometheus.MustNewConstMetric(tooManyDesc, prometheus.CounterValue, float64(m.inspector.refused.Load()))
}
