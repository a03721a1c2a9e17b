package endpoints

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/internal/version"
)

// Every process tells its build once, beside what the client library tells of it.
func TestBuildMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(ProcessCollectors()...) // no name occurs twice
	families, err := registry.Gather()
	if err != nil || len(families) < 20 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	labels := make(map[string]string)
	for _, family := range families {
		if family.GetName() != "hilbert_build_info" {
			continue
		}
		if len(family.GetMetric()) != 1 || family.GetMetric()[0].GetGauge().GetValue() != 1 {
			t.Errorf("got %v", family)
		}
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
	}
	build := version.Get()
	if labels["version"] != build.Version || labels["platform"] != build.Platform || labels["go"] != build.Go || labels["commit"] != build.Commit {
		t.Errorf("the labels are %v, the build is %v", labels, build)
	}
}
