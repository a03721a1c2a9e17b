package daemon

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/internal/version"
)

// Every process tells its build once, beside what the client library tells of it.
func TestBuildMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(processCollectors()...) // no name occurs twice
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

func TestCommandVersion(t *testing.T) {
	command := NewCommand()
	var out strings.Builder
	command.SetOut(&out)
	command.SetArgs([]string{"--version"})
	if err := command.Execute(); err != nil || out.String() != "hilbertd version "+version.Get().String()+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
