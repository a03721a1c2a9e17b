package ledgermetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/topology"
)

// The gauges of queues and units. Each has one series for each queue and each resource that the queue names or holds.
var (
	queueUsedDesc       = queueAmountDesc("used", "What the pods of a Queue and of those below it request.")
	queueGuaranteedDesc = queueAmountDesc("guaranteed", "What a Queue is guaranteed.")
	queueLimitOfDesc    = queueAmountDesc("limit", "What a Queue never exceeds. Missing where it has no limit.")
	queueBorrowedDesc   = queueAmountDesc("borrowed", "What a Queue uses beyond its guarantee.")
	queueFairShareDesc  = queueAmountDesc("fair_share", "What a queue would have if no queue had more than its fair share.")
	queueUnitsDesc      = prometheus.NewDesc("hilbert_queue_pending_units", "Pending gangs and single pods of a Queue and of those below it.", []string{"queue"}, nil)
	queuePodsDesc       = prometheus.NewDesc("hilbert_queue_pending_pods", "Pending pods of a Queue and of those below it.", []string{"queue"}, nil)
	queueReadyDesc      = prometheus.NewDesc("hilbert_queue_ready", "1 while a Queue can schedule pods; 0 while an error in its configuration prevents that.", []string{"queue"}, nil)
	reservedDesc        = prometheus.NewDesc("hilbert_reserved_nodes", "Nodes that are reserved for gangs.", nil, nil)
	unitsDesc           = prometheus.NewDesc("hilbert_units", "Gangs, by state.", []string{"state"}, nil)
	queueCollections    = []*prometheus.Desc{
		queueUsedDesc, queueGuaranteedDesc, queueLimitOfDesc, queueBorrowedDesc, queueFairShareDesc, queueUnitsDesc, queuePodsDesc, queueReadyDesc,
		reservedDesc, unitsDesc,
	}
)

func queueAmountDesc(what, help string) *prometheus.Desc {
	return prometheus.NewDesc("hilbert_queue_"+what, help+" In cores, bytes, GPUs or counts.", []string{"queue", "resource"}, nil)
}

// queueCounts is a copy of the state of queues and units.
type queueCounts struct {
	queues   []inspect.QueueStatus
	units    map[inspect.UnitState]int
	reserved int
}

func newQueueCounts(s *schedule.Scheduler) queueCounts {
	t := queueCounts{queues: inspect.QueueStatuses(s.Store()), units: inspect.UnitCounts(s)}
	state := &s.Store().State
	for slot := range cluster.Slot(state.Slots()) {
		if state.Node(slot) != nil && state.Reservation(slot) != cluster.NoReservation {
			t.reserved++
		}
	}
	return t
}

// collect sends the gauges.
func (t *queueCounts) collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(reservedDesc, float64(t.reserved))
	for state, n := range t.units {
		gauge(unitsDesc, float64(n), string(state))
	}
	for i := range t.queues {
		q := &t.queues[i]
		if q.Depth == 0 { // the cluster as a whole: other gauges have it
			continue
		}
		gauge(queueUnitsDesc, float64(q.PendingUnits), q.Name)
		gauge(queuePodsDesc, float64(q.PendingPods), q.Name)
		ready := 0.0
		if q.Ready {
			ready = 1
		}
		gauge(queueReadyDesc, ready, q.Name)
		for _, a := range q.Amounts {
			name, unit := metricUnit(a.Resource)
			gauge(queueUsedDesc, float64(a.Used)/unit, q.Name, name)
			gauge(queueGuaranteedDesc, float64(a.Guaranteed)/unit, q.Name, name)
			gauge(queueBorrowedDesc, float64(a.Borrowed)/unit, q.Name, name)
			gauge(queueFairShareDesc, float64(a.FairShare)/unit, q.Name, name)
			if a.Limit != nil {
				gauge(queueLimitOfDesc, float64(*a.Limit)/unit, q.Name, name)
			}
		}
	}
}

// metricUnit is the name of a resource in metrics, and the number of the ledger's units in one base unit.
func metricUnit(name string) (label string, unit float64) {
	switch name {
	case resource.NameCPU:
		return name, 1000
	case spec.ResourceGPUMilli:
		return "gpu", topology.FullGPU
	}
	return name, 1
}
