package agent

import "github.com/prometheus/client_golang/prometheus"

// Described are the collectors of this package's roles. They belong to no agent: they describe their metrics, for the reference, and must not collect any.
type Described struct{ Agent, Network, Memory, Watchdog, Reports, Profiles prometheus.Collector }

// DescribedMetrics returns what the roles of a node serve.
func DescribedMetrics() Described {
	return Described{Agent: agentMeter{}, Network: &network{}, Memory: &caches{}, Watchdog: watchdogMeter{}, Reports: &use{}, Profiles: &profilesMeter{}}
}
