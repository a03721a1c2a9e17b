package ledgermetrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// The gauges of GPUs, by model. Amounts are GPUs.
var (
	gpusDesc          = prometheus.NewDesc("hilbert_gpus", "GPUs, by state: idle, shared, divided, held (whole) or closed.", []string{"model", "state"}, nil)
	gpuFreeDesc       = prometheus.NewDesc("hilbert_gpu_free", "Free compute of GPUs that are not closed, in GPUs.", []string{"model"}, nil)
	gpuFragmentedDesc = prometheus.NewDesc("hilbert_gpu_fragmentation_ratio", "Share of hilbert_gpu_free that a pod of that size, in GPUs, cannot use. Missing where nothing is free.", []string{"model", "size"}, nil)
	gpuFitsDesc       = prometheus.NewDesc("hilbert_gpu_fits", "How many pods of that size, in GPUs, would fit, if only GPUs mattered.", []string{"model", "size"}, nil)
	gpuCollections    = []*prometheus.Desc{gpusDesc, gpuFreeDesc, gpuFragmentedDesc, gpuFitsDesc}
)

// newGPUSummary adds up the GPUs of all nodes. It looks at each node once.
func newGPUSummary(s *cluster.State) *fragment.GPUSummary {
	rest := &fragment.GPUSummary{}
	for slot := range cluster.Slot(s.Slots()) {
		if s.Node(slot) == nil {
			continue
		}
		if v := s.View(slot); v.GPUs() > 0 {
			rest.Add(&v)
		}
	}
	return rest
}

// collectGPUs sends the gauges.
func collectGPUs(rest *fragment.GPUSummary, out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, m := range rest.Models() {
		for _, state := range []struct {
			name  string
			count int
		}{{"idle", m.Idle}, {"shared", m.Shared}, {"divided", m.Divided}, {"held", m.Held}, {"closed", m.Closed}} {
			gauge(gpusDesc, float64(state.count), m.Model, state.name)
		}
		gauge(gpuFreeDesc, float64(m.Left)/topology.FullGPU, m.Model)
		for i, size := range fragment.Sizes {
			name := strconv.FormatFloat(float64(size)/topology.FullGPU, 'f', -1, 64)
			gauge(gpuFitsDesc, float64(m.Fits[i]), m.Model, name)
			if part, ok := m.Fragmentation(i); ok {
				gauge(gpuFragmentedDesc, part, m.Model, name)
			}
		}
	}
}
