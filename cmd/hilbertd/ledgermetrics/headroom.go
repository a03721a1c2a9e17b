package ledgermetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/relief"
)

// The gauges of what nodes lend. Amounts are in the base units of Prometheus: cores and bytes.
var (
	headroomDesc  = prometheus.NewDesc("hilbert_reclaimed_headroom", "What all reclaimed pods of the cluster may use, running ones included, by resource: cpu in cores, memory in bytes.", []string{"resource"}, nil)
	claimedDesc   = prometheus.NewDesc("hilbert_reclaimed_requested", "What all reclaimed pods of the cluster request, by resource: cpu in cores, memory in bytes.", []string{"resource"}, nil)
	lendersDesc   = prometheus.NewDesc("hilbert_headroom_reports", "Nodes, by the state of the headroom that they report: open, closed, stale, malformed or unsaid (not reported).", []string{"state"}, nil)
	overdrawnDesc = prometheus.NewDesc("hilbert_overdrawn_nodes", "Nodes whose reclaimed pods request more than the headroom. That is no error: headroom falls when online pods need more.", nil, nil)
	lentPodsDesc  = prometheus.NewDesc("hilbert_reclaimed_pods", "Reclaimed pods that are bound, or whose Binding is under way.", nil, nil)
	requestsDesc  = prometheus.NewDesc("hilbert_eviction_requests", "Evictions that nodes request: waiting for the budget, urgent, or in progress.", []string{"state"}, nil)
	unfitDesc     = prometheus.NewDesc("hilbert_eviction_requests_ignored_total", "Eviction requests that were ignored, because the pod is not a reclaimed one or runs on another node.", nil, nil)

	headroomCollections = []*prometheus.Desc{headroomDesc, claimedDesc, lendersDesc, overdrawnDesc, lentPodsDesc, requestsDesc, unfitDesc}
)

// headroomStates are all states of a report's headroom.
var headroomStates = [...]facts.HeadroomState{
	facts.HeadroomUnsaid, facts.HeadroomOpen, facts.HeadroomClosed, facts.HeadroomStale, facts.HeadroomMalformed,
}

// headroomCounts is a copy of what nodes lend.
type headroomCounts struct {
	offered, requested [facts.ReclaimedKinds]int64
	states             [len(headroomStates)]int
	overdrawn, pods    int
	standing           relief.Status
	unfit              int
}

// newHeadroomCounts looks at each node once, and at no pod.
func newHeadroomCounts(s *schedule.Scheduler) (c headroomCounts) {
	store := s.Store()
	counts, standing := s.Relief()
	c.standing, c.unfit, c.pods = standing, counts.Invalid, store.PodCounts().Reclaimed
	kinds := store.LentKinds()
	for slot := range cluster.Slot(store.Slots()) {
		if store.Node(slot) == nil {
			continue
		}
		c.states[store.Headroom(slot).State]++
		over := false
		for i, kind := range kinds {
			if kind == 0 {
				continue
			}
			c.offered[i] += store.Allocatable(slot, kind)
			c.requested[i] += store.Requested(slot, kind)
			over = over || store.Free(slot, kind) < 0
		}
		if over {
			c.overdrawn++
		}
	}
	return c
}

// collect sends the gauges.
func (c *headroomCounts) collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	const millis = 1000
	for i, resource := range [...]string{"cpu", "memory"} {
		unit := [...]float64{millis, 1}[i]
		gauge(headroomDesc, float64(c.offered[i])/unit, resource)
		gauge(claimedDesc, float64(c.requested[i])/unit, resource)
	}
	for i, state := range headroomStates {
		gauge(lendersDesc, float64(c.states[i]), state.String())
	}
	gauge(overdrawnDesc, float64(c.overdrawn))
	gauge(lentPodsDesc, float64(c.pods))
	gauge(requestsDesc, float64(c.standing.Waiting), "waiting")
	gauge(requestsDesc, float64(c.standing.Urgent), "urgent")
	gauge(requestsDesc, float64(c.standing.InFlight), "in_flight")
	out <- prometheus.MustNewConstMetric(unfitDesc, prometheus.CounterValue, float64(c.unfit))
}
