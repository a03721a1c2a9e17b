package daemon

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"hilbert.dev/hilbert/internal/version"
)

// processCollectors are the metrics that every process of ours serves, whatever its role: its build, its memory and its goroutines.
func processCollectors() []prometheus.Collector {
	return []prometheus.Collector{newBuildMetric(version.Get()), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
}

// newBuildMetric is 1, with the build as its labels, which dashboards join to other series.
func newBuildMetric(build version.Info) prometheus.Collector {
	metric := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "hilbert_build_info", Help: "1; its labels say which build of Hilbert this process is.",
	}, []string{"version", "commit", "go", "platform"})
	metric.WithLabelValues(build.Version, build.Commit, build.Go, build.Platform).Set(1)
	return metric
}
