package endpoints

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"hilbert.dev/hilbert/internal/version"
)

// ProcessCollectors are the metrics that every process of ours serves, whatever its role: its build, its memory and its goroutines.
func ProcessCollectors() []prometheus.Collector {
	return []prometheus.Collector{NewBuildMetric(version.Get()), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
}

// NewBuildMetric is 1, with the build as its labels, which dashboards join to other series.
func NewBuildMetric(build version.Info) prometheus.Collector {
	metric := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "hilbert_build_info", Help: "1; its labels say which build of Hilbert this process is.",
	}, []string{"version", "commit", "go", "platform"})
	metric.WithLabelValues(build.Version, build.Commit, build.Go, build.Platform).Set(1)
	return metric
}

// OneIf is a gauge's value for a condition: 1 where it holds.
func OneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
