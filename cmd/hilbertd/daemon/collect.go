package daemon

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/intake"
)

// These gauges are read from the loop at each scrape.
var (
	pendingDesc     = prometheus.NewDesc("hilbert_pending_pods", "Pending pods, by the state that they wait in.", []string{"queue"}, nil)
	inFlightDesc    = prometheus.NewDesc("hilbert_bindings_in_flight", "Placements whose Binding the API server has not confirmed yet.", nil, nil)
	writesDesc      = prometheus.NewDesc("hilbert_writes_outstanding", "Requests to the API server that are under way.", nil, nil)
	nodesDesc       = prometheus.NewDesc("hilbert_cache_nodes", "Nodes in the ledger.", nil, nil)
	overDesc        = prometheus.NewDesc("hilbert_overcommitted_nodes", "Nodes whose pods request more than is allocatable. Hilbert never does that; other schedulers, nodes that shrink and a write that outlived its leader can.", nil, nil)
	podsDesc        = prometheus.NewDesc("hilbert_cache_pods", "Pods in the ledger.", nil, nil)
	kindsDesc       = prometheus.NewDesc("hilbert_resource_names", "Resources that nodes and queues name, the built-in ones included, by whether the ledger counts them. What waits is beyond the bound of 512: no pod that asks for it is placed.", []string{"state"}, nil)
	queueDepthDesc  = prometheus.NewDesc("hilbert_event_queue_depth", "Events from the API server that wait for the scheduling loop.", nil, nil)
	queueLimitDesc  = prometheus.NewDesc("hilbert_event_queue_limit", "Capacity of the queue that hilbert_event_queue_depth measures.", nil, nil)
	responsiveDesc  = prometheus.NewDesc("hilbert_loop_responsive", "1 if the scheduling loop answered this scrape. Otherwise its gauges are missing.", nil, nil)
	loopCollections = []*prometheus.Desc{pendingDesc, inFlightDesc, writesDesc, nodesDesc, overDesc, podsDesc, kindsDesc, queueDepthDesc, queueLimitDesc, responsiveDesc, upstreamPendingDesc}
)

// scrapeTimeout is how long a scrape waits for the loop.
const scrapeTimeout = 2 * time.Second

// Describe implements prometheus.Collector.
func (l *loop) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range loopCollections {
		out <- desc
	}
	for _, desc := range slices.Concat(queueCollections, numaCollections, headroomCollections, gpuCollections, boundCollections, schedulerCollections) {
		out <- desc
	}
}

// Collect implements prometheus.Collector: it reads the loop's state in the loop's goroutine.
func (l *loop) Collect(out chan<- prometheus.Metric) {
	var state struct {
		pending                         map[inspect.WaitingState]int
		tenancy                         queueCounts
		numaNodes                       numaCounts
		headroom                        headroomCounts
		bounds                          boundCounts
		workers                         schedule.WorkerCounts
		elsewhere                       schedule.OutsideCounts
		partitions                      schedule.PartitionCounts
		gpus                            *fragment.GPUSummary
		nodes, pods, depth, outstanding int
		over                            int
		kinds, kindless                 int
	}
	answered := l.ask(scrapeTimeout, func() {
		state.pending, state.tenancy = inspect.PendingPods(l.scheduler), newQueueCounts(l.scheduler)
		state.nodes, state.pods = l.scheduler.Store().Nodes(), l.scheduler.Store().Pods()
		state.over, state.numaNodes = overcommitted(&l.scheduler.Store().State), newNUMACounts(l.scheduler.Store())
		state.kinds, state.kindless = l.scheduler.Store().ResourceNames()
		state.headroom, state.bounds = newHeadroomCounts(l.scheduler), newBoundCounts(l.scheduler)
		state.workers, state.elsewhere = l.scheduler.Workers(), l.scheduler.Outside().Counts()
		state.partitions = l.scheduler.Partitions()
		state.gpus = newGPUSummary(&l.scheduler.Store().State)
		state.depth, state.outstanding = len(l.watch.Events())+l.intake.Len(), l.outstanding
	})
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	if !answered {
		gauge(responsiveDesc, 0)
		return
	}
	gauge(responsiveDesc, 1)
	for waits, n := range state.pending {
		if waits == inspect.WaitingBinding {
			gauge(inFlightDesc, n)
		} else {
			gauge(pendingDesc, n, string(waits))
		}
	}
	collectUpstreamPending(state.pending, out)
	state.tenancy.collect(out)
	state.bounds.collect(out)
	collectSchedulers(state.workers, out)
	collectElsewhere(state.elsewhere, out)
	collectPartitions(state.partitions, out)
	state.numaNodes.collect(out)
	state.headroom.collect(out)
	collectGPUs(state.gpus, out)
	gauge(writesDesc, state.outstanding)
	gauge(nodesDesc, state.nodes)
	gauge(podsDesc, state.pods)
	gauge(overDesc, state.over)
	gauge(kindsDesc, state.kinds, "counted")
	gauge(kindsDesc, state.kindless, "waiting")
	gauge(queueDepthDesc, state.depth)
	gauge(queueLimitDesc, kube.MaxQueuedEvents+intake.MaxWaiting)
}

// overcommitted counts the nodes that hold more than they have.
func overcommitted(s *cluster.State) int {
	n := 0
	for slot := range cluster.Slot(s.Slots()) {
		if s.Node(slot) != nil && overcommits(s, slot) {
			n++
		}
	}
	return n
}

func overcommits(s *cluster.State, slot cluster.Slot) bool {
	for kind := range resource.Kind(s.Kinds()) {
		if s.Free(slot, kind) < 0 && !s.IsReclaimed(kind) {
			return true
		}
	}
	for _, free := range s.GPUs(slot) {
		if free < 0 {
			return true
		}
	}
	return false
}
