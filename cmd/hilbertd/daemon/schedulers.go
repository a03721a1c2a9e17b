package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/schedule"
)

// goroutines runs each scheduler's work on a goroutine of its own. Of a scheduler at most one piece of work is under way, so that no channel is ever full.
type goroutines []chan struct{}

func newGoroutines(schedulers int) goroutines {
	g := make(goroutines, schedulers)
	for i := range g {
		g[i] = make(chan struct{}, 1)
	}
	return g
}

func (g goroutines) Start(scheduler int, work func()) {
	go func() {
		work()
		g[scheduler] <- struct{}{}
	}()
}

func (g goroutines) Wait(scheduler int) { <-g[scheduler] }

// The metrics of several schedulers in one process.
var (
	schedulersDesc = prometheus.NewDesc("hilbert_schedulers", "Schedulers that place single pods at the same time, each in a part of the nodes; 1: one does everything.", nil, nil)
	handedOutDesc  = prometheus.NewDesc("hilbert_units_handed_out_total", "Units that several schedulers decided on at the same time, by what came of them: committed, elsewhere (no room in the part of the nodes, so that all were looked at), parked (equal pods were found to fit nowhere meanwhile), rejected (by the committer) and gone (the pod had left or changed). Only with scheduling.schedulers above 1.", []string{"result"}, nil)
	batchesDesc    = prometheus.NewDesc("hilbert_batches_handed_out_total", "Times that one of several schedulers was given units to decide on.", nil, nil)

	schedulerCollections = []*prometheus.Desc{schedulersDesc, handedOutDesc, batchesDesc}
)

func collectSchedulers(c schedule.WorkerCounts, out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(schedulersDesc, prometheus.GaugeValue, float64(max(c.Schedulers, 1)))
	out <- prometheus.MustNewConstMetric(batchesDesc, prometheus.CounterValue, float64(c.Batches))
	for result, n := range map[string]int{"committed": c.Committed, "elsewhere": c.Elsewhere, "parked": c.Parked, "rejected": c.Rejected, "gone": c.Gone} {
		out <- prometheus.MustNewConstMetric(handedOutDesc, prometheus.CounterValue, float64(n), result)
	}
}
