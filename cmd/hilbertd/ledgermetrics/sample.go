package ledgermetrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/schedule/inspect"
)

// Sample is what the metrics say at one moment.
type Sample struct {
	totals     totals
	pending    map[inspect.WaitingState]int
	queues     queueCounts
	numaNodes  numaCounts
	headroom   headroomCounts
	bounds     boundCounts
	gpus       *fragment.GPUSummary
	workers    schedule.WorkerCounts
	elsewhere  schedule.OutsideCounts
	partitions schedule.PartitionCounts
}

// Take copies what the metrics say now. Only the goroutine that the scheduler belongs to may call it.
func Take(s *schedule.Scheduler) *Sample {
	store := s.Store()
	return &Sample{
		totals: newTotals(store), pending: inspect.PendingPods(s), queues: newQueueCounts(s), numaNodes: newNUMACounts(store),
		headroom: newHeadroomCounts(s), bounds: newBoundCounts(s), gpus: newGPUSummary(&store.State),
		workers: s.Workers(), elsewhere: s.Outside().Counts(), partitions: s.Partitions(),
	}
}

// Describe sends the descriptors of all metrics.
func Describe(out chan<- *prometheus.Desc) {
	for _, desc := range slices.Concat(totalCollections, pendingCollections, queueCollections, numaCollections, headroomCollections, gpuCollections, boundCollections, schedulerCollections) {
		out <- desc
	}
}

// Collect sends all metrics.
func (s *Sample) Collect(out chan<- prometheus.Metric) {
	s.totals.collect(out)
	collectPending(s.pending, out)
	s.queues.collect(out)
	s.bounds.collect(out)
	collectSchedulers(s.workers, out)
	collectElsewhere(s.elsewhere, out)
	collectPartitions(s.partitions, out)
	s.numaNodes.collect(out)
	s.headroom.collect(out)
	collectGPUs(s.gpus, out)
}
