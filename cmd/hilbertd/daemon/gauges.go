package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/cmd/hilbertd/ledgermetrics"
	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/schedule/intake"
)

// These gauges are read from the loop at each scrape.
var (
	writesDesc      = prometheus.NewDesc("hilbert_writes_outstanding", "Requests to the API server that are under way.", nil, nil)
	queueDepthDesc  = prometheus.NewDesc("hilbert_event_queue_depth", "Events from the API server that wait for the scheduling loop.", nil, nil)
	queueLimitDesc  = prometheus.NewDesc("hilbert_event_queue_limit", "Capacity of the queue that hilbert_event_queue_depth measures.", nil, nil)
	responsiveDesc  = prometheus.NewDesc("hilbert_loop_responsive", "1 if the scheduling loop answered this scrape. Otherwise its gauges are missing.", nil, nil)
	loopCollections = []*prometheus.Desc{writesDesc, queueDepthDesc, queueLimitDesc, responsiveDesc}
)

// Describe implements prometheus.Collector.
func (l *loop) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range loopCollections {
		out <- desc
	}
	ledgermetrics.Describe(out)
}

// Collect implements prometheus.Collector: it reads the loop's state in the loop's goroutine.
func (l *loop) Collect(out chan<- prometheus.Metric) {
	var sample *ledgermetrics.Sample
	var depth, outstanding int
	answered := l.ask(endpoints.ScrapeTimeout, func() {
		sample = ledgermetrics.Take(l.scheduler)
		depth, outstanding = len(l.watch.Events())+l.intake.Len(), l.outstanding
	})
	gauge := func(desc *prometheus.Desc, value int) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value))
	}
	if !answered {
		gauge(responsiveDesc, 0)
		return
	}
	gauge(responsiveDesc, 1)
	sample.Collect(out)
	gauge(writesDesc, outstanding)
	gauge(queueDepthDesc, depth)
	gauge(queueLimitDesc, kube.MaxQueuedEvents+intake.MaxWaiting)
}
