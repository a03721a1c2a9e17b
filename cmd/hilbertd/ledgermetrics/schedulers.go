package ledgermetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/schedule"
)

// The metrics of several schedulers in one process.
var (
	schedulersDesc = prometheus.NewDesc("hilbert_schedulers", "Schedulers that place single pods at the same time, in this process or in others, each in a part of the nodes; 1: one does everything, or one elsewhere does what is for it.", nil, nil)
	handedOutDesc  = prometheus.NewDesc("hilbert_units_handed_out_total", "Units that several schedulers decided on at the same time, or schedulers in other processes, by what came of them: committed, elsewhere (no room in the part of the nodes, or the search was cut short, so that all were looked at), parked (equal pods were found to fit nowhere meanwhile), rejected (by the committer) and gone (the pod had left or changed).", []string{"result"}, nil)
	batchesDesc    = prometheus.NewDesc("hilbert_batches_handed_out_total", "Times that one of several schedulers was given units to decide on.", nil, nil)

	partitionsDesc = prometheus.NewDesc("hilbert_partitions", "Parts into which the nodes are divided, each for one of several schedulers; 1: every scheduler looks at all nodes.", nil, nil)
	divisionsDesc  = prometheus.NewDesc("hilbert_partition_changes_total", "Times that the nodes were divided into more parts (split), into fewer (merge), or anew because free capacity lay unevenly or nodes had come (rebalance).", []string{"change"}, nil)

	elsewhereDesc = prometheus.NewDesc("hilbert_schedulers_elsewhere", "Schedulers in processes of their own that decide for this leader now.", nil, nil)
	goneDesc      = prometheus.NewDesc("hilbert_schedulers_gone_total", "Schedulers in processes of their own that decide for this leader no more, by why: their stream ended (left), or they did not answer within 2 s (shed). Their units were given back.", []string{"reason"}, nil)
	worksDesc     = prometheus.NewDesc("hilbert_scheduler_messages_total", "Messages to schedulers in processes of their own.", nil, nil)
	rowsDesc      = prometheus.NewDesc("hilbert_scheduler_rows_total", "Rows of nodes in those messages: one for each node that has changed, or was copied.", nil, nil)
	copiesDesc    = prometheus.NewDesc("hilbert_scheduler_copies_total", "Times that a scheduler in a process of its own was sent all nodes anew, at its start or because it had fallen too far behind.", nil, nil)

	schedulerCollections = []*prometheus.Desc{schedulersDesc, handedOutDesc, batchesDesc, partitionsDesc, divisionsDesc, elsewhereDesc, goneDesc, worksDesc, rowsDesc, copiesDesc}
)

func collectSchedulers(c schedule.WorkerCounts, out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(schedulersDesc, prometheus.GaugeValue, float64(max(c.Schedulers, 1)))
	out <- prometheus.MustNewConstMetric(batchesDesc, prometheus.CounterValue, float64(c.Batches))
	for result, n := range map[string]int{"committed": c.Committed, "elsewhere": c.Elsewhere, "parked": c.Parked, "rejected": c.Rejected, "gone": c.Gone} {
		out <- prometheus.MustNewConstMetric(handedOutDesc, prometheus.CounterValue, float64(n), result)
	}
}

func collectPartitions(c schedule.PartitionCounts, out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(partitionsDesc, prometheus.GaugeValue, float64(c.Partitions))
	for change, n := range map[string]int{"split": c.Splits, "merge": c.Merges, "rebalance": c.Rebalances} {
		out <- prometheus.MustNewConstMetric(divisionsDesc, prometheus.CounterValue, float64(n), change)
	}
}

func collectElsewhere(c schedule.OutsideCounts, out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(elsewhereDesc, prometheus.GaugeValue, float64(c.Schedulers))
	out <- prometheus.MustNewConstMetric(goneDesc, prometheus.CounterValue, float64(c.Left), "left")
	out <- prometheus.MustNewConstMetric(goneDesc, prometheus.CounterValue, float64(c.Shed), "shed")
	out <- prometheus.MustNewConstMetric(worksDesc, prometheus.CounterValue, float64(c.Works))
	out <- prometheus.MustNewConstMetric(rowsDesc, prometheus.CounterValue, float64(c.Rows))
	out <- prometheus.MustNewConstMetric(copiesDesc, prometheus.CounterValue, float64(c.Copies))
}
