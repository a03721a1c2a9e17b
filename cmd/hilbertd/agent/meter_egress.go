package agent

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/node/egress"
)

// The metrics of the network's limits.
var (
	egressPackets  = agentDesc("egress_packets_total", "Packets that pods sent off the node, by uplink, class and outcome.", "uplink", "class", "outcome")
	egressBytes    = agentDesc("egress_bytes_total", "Bytes that pods sent off the node, by uplink and class.", "uplink", "class")
	egressCeiling  = agentDesc("egress_ceiling_bytes_per_second", "What all reclaimed pods may send together by an uplink; 0: no limit.", "uplink")
	ingressPackets = agentDesc("ingress_packets_total", "Packets that came in for reclaimed pods where that is limited, by uplink and outcome.", "uplink", "outcome")
	ingressBytes   = agentDesc("ingress_bytes_total", "Bytes that came in for reclaimed pods where that is limited, by uplink and outcome.", "uplink", "outcome")
	ingressCeiling = agentDesc("ingress_ceiling_bytes_per_second", "What may come in for all reclaimed pods together by an uplink; 0: no limit.", "uplink")
	networkUplinks = agentDesc("network_uplinks", "The node's uplinks that have limits.")
	networkTaken   = agentDesc("network_uplinks_taken", "The node's uplinks that have no limits because somebody else chose their qdisc, while others have theirs.")
)

// atomicState is the last state, written by the governor and read by scrapes.
type atomicState struct{ last atomic.Pointer[egress.State] }

func (s *atomicState) store(state *egress.State) {
	copied := *state
	s.last.Store(&copied)
}

// Describe implements prometheus.Collector.
func (n *network) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{egressPackets, egressBytes, egressCeiling, ingressPackets, ingressBytes, ingressCeiling, networkUplinks, networkTaken} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. It sends nothing before the first state.
func (n *network) Collect(out chan<- prometheus.Metric) {
	state := n.state.last.Load()
	if state == nil {
		return
	}
	out <- prometheus.MustNewConstMetric(networkUplinks, prometheus.GaugeValue, float64(len(state.Uplinks)))
	out <- prometheus.MustNewConstMetric(networkTaken, prometheus.GaugeValue, float64(n.taken.Load()))
	counter := func(desc *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	for name, u := range state.Uplinks {
		out <- prometheus.MustNewConstMetric(egressCeiling, prometheus.GaugeValue, float64(u.Ceilings.Outgoing), name)
		out <- prometheus.MustNewConstMetric(ingressCeiling, prometheus.GaugeValue, float64(u.Ceilings.Incoming), name)
		for class, c := range map[string]egress.Class{"online": u.Counts.Online, "reclaimed": u.Counts.Reclaimed} {
			counter(egressBytes, c.Bytes, name, class)
			for outcome, n := range map[string]uint64{"sent": c.Packets, "delayed": c.Delayed, "dropped": c.Dropped} {
				counter(egressPackets, n, name, class, outcome)
			}
		}
		in := u.Counts.Incoming
		counter(ingressBytes, in.Bytes, name, "passed")
		counter(ingressBytes, in.Refused, name, "dropped")
		counter(ingressPackets, in.Packets, name, "passed")
		counter(ingressPackets, in.Dropped, name, "dropped")
	}
}
