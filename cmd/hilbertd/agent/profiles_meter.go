package agent

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/kube/agent"
)

var profilesLeftOut = agentDesc("service_profiles_left_out_total", "ServiceProfiles that are not followed, because there are more than 4,096: those of the namespaces that have most.")

// profilesMeter says what the watch of ServiceProfiles has left out. The zero value has no watch yet.
type profilesMeter struct {
	of atomic.Pointer[agent.ProfileWatch]
}

// Describe implements prometheus.Collector.
func (*profilesMeter) Describe(out chan<- *prometheus.Desc) { out <- profilesLeftOut }

// Collect implements prometheus.Collector.
func (m *profilesMeter) Collect(out chan<- prometheus.Metric) {
	if w := m.of.Load(); w != nil {
		out <- prometheus.MustNewConstMetric(profilesLeftOut, prometheus.CounterValue, float64(w.LeftOut()))
	}
}
