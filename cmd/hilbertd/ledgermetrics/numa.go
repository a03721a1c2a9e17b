package ledgermetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// The gauges of NUMA nodes.
var (
	overpromisedDesc = prometheus.NewDesc("hilbert_overpromised_numa_nodes", "Nodes of which a NUMA node has promised or given more than it has. Hilbert never commits that; foreign pods, closed or shrinking machines and agents that move pods can.", nil, nil)
	numaReportsDesc  = prometheus.NewDesc("hilbert_numa_node_reports", "Nodes of which an agent reports, by what the report is good for.", []string{"state"}, nil)
	numaPromisesDesc = prometheus.NewDesc("hilbert_numa_node_promises", "Promises of NUMA nodes to pods that are on a node or on their way there, by what the node says of them.", []string{"state"}, nil)
	numaCollections  = []*prometheus.Desc{overpromisedDesc, numaReportsDesc, numaPromisesDesc}
)

// The states of a report.
const (
	reportFresh     = "fresh"
	reportStale     = "stale"
	reportMalformed = "malformed"
	reportKubelet   = "kubelet" // fresh, but in mode kubelet: no promises are made
)

// numaCounts is a copy of what is known of NUMA nodes.
type numaCounts struct {
	overpromised int
	reports      map[string]int
	promises     cluster.Promises
}

// newNUMACounts looks at each node once, and at no pod.
func newNUMACounts(store *cluster.Store) numaCounts {
	c := numaCounts{reports: map[string]int{reportFresh: 0, reportStale: 0, reportMalformed: 0, reportKubelet: 0}, promises: store.PodCounts().Promises}
	for slot := range cluster.Slot(store.Slots()) {
		r := store.Report(slot)
		if store.Node(slot) == nil || r == nil {
			continue
		}
		c.reports[reportState(r)]++
		if overpromises(&store.State, slot) {
			c.overpromised++
		}
	}
	return c
}

func reportState(r *facts.NodeReport) string {
	switch {
	case r.Why == facts.ReportMalformed:
		return reportMalformed
	case r.NUMANodes.Ruler == topology.RulerAgent:
		return reportFresh
	case r.NUMANodes.Ruler == topology.RulerKubelet:
		return reportKubelet
	}
	return reportStale
}

func overpromises(s *cluster.State, slot cluster.Slot) bool {
	shape, free := s.NUMANodes(slot)
	for z := range shape.NUMANodes {
		if free[z].CPUs < 0 || free[z].Memory < 0 {
			return true
		}
	}
	return false
}

// collect sends the gauges.
func (c *numaCounts) collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(overpromisedDesc, c.overpromised)
	for state, n := range c.reports {
		gauge(numaReportsDesc, n, state)
	}
	gauge(numaPromisesDesc, c.promises.Waiting, "waiting")
	gauge(numaPromisesDesc, c.promises.Confirmed, "confirmed")
	gauge(numaPromisesDesc, c.promises.Moved, "moved")
}
