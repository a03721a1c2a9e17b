package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// The gauges of zones.
var (
	overpromisedDesc = prometheus.NewDesc("hilbert_overpromised_zones", "Nodes of which a zone has promised or given more than it has. Hilbert never commits that; foreign pods, closed or shrinking machines and agents that move pods can.", nil, nil)
	zoneReportsDesc  = prometheus.NewDesc("hilbert_zone_reports", "Nodes of which an agent reports, by what the report is good for.", []string{"state"}, nil)
	zonePromisesDesc = prometheus.NewDesc("hilbert_zone_promises", "Promises of zones to pods that are on a node or on their way there, by what the node says of them.", []string{"state"}, nil)
	zoneCollections  = []*prometheus.Desc{overpromisedDesc, zoneReportsDesc, zonePromisesDesc}
)

// The states of a report.
const (
	reportFresh     = "fresh"
	reportStale     = "stale"
	reportMalformed = "malformed"
	reportKubelet   = "kubelet" // fresh, and nothing is promised
)

// zoneCounts is what the loop copies out about zones.
type zoneCounts struct {
	overpromised int
	reports      map[string]int
	promises     cluster.Promises
}

// newZoneCounts looks at each node once, and at no pod.
func newZoneCounts(store *cluster.Store) zoneCounts {
	c := zoneCounts{reports: map[string]int{reportFresh: 0, reportStale: 0, reportMalformed: 0, reportKubelet: 0}, promises: store.Promises()}
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
	case r.Zones.Ruler == topology.RulerAgent:
		return reportFresh
	case r.Zones.Ruler == topology.RulerKubelet:
		return reportKubelet
	}
	return reportStale
}

func overpromises(s *cluster.State, slot cluster.Slot) bool {
	shape, free := s.Zones(slot)
	for z := range shape.Zones {
		if free[z].CPUs < 0 || free[z].Memory < 0 {
			return true
		}
	}
	return false
}

// collect sends the gauges.
func (c *zoneCounts) collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(overpromisedDesc, c.overpromised)
	for state, n := range c.reports {
		gauge(zoneReportsDesc, n, state)
	}
	gauge(zonePromisesDesc, c.promises.Waiting, "waiting")
	gauge(zonePromisesDesc, c.promises.Confirmed, "confirmed")
	gauge(zonePromisesDesc, c.promises.Moved, "moved")
}
