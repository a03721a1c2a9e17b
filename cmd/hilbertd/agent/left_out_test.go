package agent

import (
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/reports"
	"hilbert.dev/hilbert/control/metrics"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/evict"
)

// valuesOf are what is collected of some metrics, by their labels' values.
func valuesOf(t *testing.T, collect func(chan<- prometheus.Metric), of ...*prometheus.Desc) map[string]float64 {
	t.Helper()
	out := make(chan prometheus.Metric, 300)
	collect(out)
	close(out)
	got := make(map[string]float64)
	for m := range out {
		for _, desc := range of {
			var metric dto.Metric
			if m.Desc() != desc {
				continue
			}
			if err := m.Write(&metric); err != nil {
				t.Fatal(err)
			}
			name := ""
			for _, l := range metric.GetLabel() {
				name += l.GetValue()
			}
			got[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return got
}

// TestWhatIsLeftOutIsServed: each bound on what tenants create has its number in the metrics.
func TestWhatIsLeftOutIsServed(t *testing.T) {
	t.Parallel()
	u, now := &use{reports.NewSender(spec.NodeMetrics{}, "n1", slog.New(slog.DiscardHandler))}, time.Now()
	var pods []node.PodUse
	for i := range metrics.MaxPods + 2 {
		pods = append(pods, node.PodUse{PodRef: spec.PodRef{UID: fmt.Sprint(i)}})
		pods[i].CPU.Known = true
	}
	for i := range metrics.MaxContainers + 3 {
		pods[0].Containers = append(pods[0].Containers, node.ContainerPeak{Name: fmt.Sprint(i), Bytes: 1})
	}
	u.see(now, pods)
	if got, want := valuesOf(t, u.Collect, useLeftOut), map[string]float64{"pods": 2, "containers": 3}; !maps.Equal(got, want) {
		t.Errorf("of reports: got %v, want %v", got, want)
	}
	s := &node.State{CgroupsLeftOut: 7, Unwatched: 9, Interference: &spec.Interference{Watched: 64, Learning: 4}}
	if got := valuesOf(t, func(out chan<- prometheus.Metric) { collectAgentCounts(out, s) }, agentLeftOut); got[""] != 7 {
		t.Errorf("of cgroups: %v", got)
	}
	if got := valuesOf(t, func(out chan<- prometheus.Metric) {
		collectLending(out, &node.State{Evicting: evict.Counts{Crowded: 5}})
	}, agentCrowded); got[""] != 5 {
		t.Errorf("of evictions: %v", got)
	}
	got := valuesOf(t, func(out chan<- prometheus.Metric) {
		collectInterference(func(kind prometheus.ValueType, desc *prometheus.Desc, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
		}, s)
	}, agentWatched)
	if want := map[string]float64{"known": 60, "learning": 4, "unwatched": 9}; !maps.Equal(got, want) {
		t.Errorf("of services: got %v, want %v", got, want)
	}
}
