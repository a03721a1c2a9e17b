package daemon

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/node/egress"
)

// The metrics of the egress ceiling.
var (
	egressPackets = agentDesc("egress_packets_total", "Packets that pods sent off the node, by class and outcome.", "class", "outcome")
	egressBytes   = agentDesc("egress_bytes_total", "Bytes that pods sent off the node, by class.", "class")
	egressCeiling = agentDesc("egress_ceiling_bytes_per_second", "What all reclaimed pods may send together; 0: no limit.")
)

// atomicState is the last state, written by the governor and read by scrapes.
type atomicState struct{ last atomic.Pointer[egress.State] }

func (s *atomicState) store(state *egress.State) {
	copied := *state
	s.last.Store(&copied)
}

// Describe implements prometheus.Collector.
func (n *network) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{egressPackets, egressBytes, egressCeiling} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. It sends nothing before the first state.
func (n *network) Collect(out chan<- prometheus.Metric) {
	state := n.state.last.Load()
	if state == nil {
		return
	}
	out <- prometheus.MustNewConstMetric(egressCeiling, prometheus.GaugeValue, float64(state.Ceiling))
	for class, c := range map[string]egress.Class{"online": state.Counts.Online, "reclaimed": state.Counts.Reclaimed} {
		out <- prometheus.MustNewConstMetric(egressBytes, prometheus.CounterValue, float64(c.Bytes), class)
		for outcome, n := range map[string]uint64{"sent": c.Packets, "delayed": c.Delayed, "dropped": c.Dropped} {
			out <- prometheus.MustNewConstMetric(egressPackets, prometheus.CounterValue, float64(n), class, outcome)
		}
	}
}
