package daemon

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cmd/hilbertd/agent"
	"hilbert.dev/hilbert/cmd/hilbertd/controller"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/cmd/hilbertd/metrics"
	"hilbert.dev/hilbert/cmd/hilbertd/tracing"
	"hilbert.dev/hilbert/internal/reference"
	"hilbert.dev/hilbert/internal/version"
)

// TestReferenceMetrics holds metrics.md: every metric that the scheduler and the agent serve.
func TestReferenceMetrics(t *testing.T) {
	scheduler := newMeter(time.Now, slog.New(slog.DiscardHandler))
	families, err := scheduler.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if name, kind := family.GetName(), strings.ToLower(family.GetType().String()); strings.HasPrefix(name, "hilbert_") && typeOfName(name) != kind {
			t.Errorf("%s is a %s, and its name says %s", name, kind, typeOfName(name))
		}
	}
	var page strings.Builder
	onNode := agent.DescribedMetrics()
	isOfEvery := func(desc *prometheus.Desc) bool { return strings.Contains(desc.String(), `"hilbert_build_info"`) }
	metricTable(t, &page, "The scheduler", "Served by a hilbertd with the roles dispatcher, scheduler and binder.", without(isOfEvery, scheduler.registry.Describe), (&loop{}).Describe, questionMeter{}.Describe)
	metricTable(t, &page, "The scheduler's traces", "Served by it where `tracing.endpoint` is set.", (*tracing.Recorder)(nil).Describe)
	metricTable(t, &page, "The agent", "Served by a hilbertd with the role agent.", onNode.Agent.Describe, onNode.Profiles.Describe)
	metricTable(t, &page, "The agent's network ceiling", "Served by an agent with `node.lending.network.enabled`.", onNode.Network.Describe)
	metricTable(t, &page, "The agent's memory bandwidth", "Served by an agent with `node.lending.rdt.feedback.domainBytesPerSecond` above 0.", onNode.Memory.Describe)
	metricTable(t, &page, "The watchdog", "Served by a hilbertd with the role watchdog.", onNode.Watchdog.Describe)
	metricTable(t, &page, "The controller", "Served by a hilbertd with the role controller.", describeAll(controller.Metrics()))
	metricTable(t, &page, "The agent's reports to the role metrics", "Served by an agent with `node.metrics.address`.", onNode.Reports.Describe)
	metricTable(t, &page, "The role metrics", "Served by a hilbertd with the role metrics, about itself. What it answers autoscalers is in [autoscale](../how-to/autoscale.md).", metrics.Described().Describe)
	metricTable(t, &page, "Every process", "Served by every hilbertd, whatever its role.", endpoints.NewBuildMetric(version.Info{}).Describe)
	page.WriteString("Beside it, the `go_*` and `process_*` metrics of the Prometheus client library: memory, goroutines, CPU time, open files.\n")
	reference.Hold(t, "metrics.md", "Metrics", page.String())
}

// described takes a descriptor's text apart: the library keeps its fields to itself.
var described = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*?)", (?:unit: "[^"]*", )?constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

func metricTable(t *testing.T, page *strings.Builder, title, about string, describe ...func(chan<- *prometheus.Desc)) {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		for _, d := range describe {
			d(descs)
		}
	}()
	var rows []string
	for desc := range descs {
		if !strings.Contains(desc.String(), `fqName: "hilbert_`) && !strings.Contains(desc.String(), `fqName: "scheduler_`) {
			continue // the client library's own
		}
		parts := described.FindStringSubmatch(desc.String())
		if parts == nil {
			t.Fatalf("a descriptor that this test cannot read: %v", desc)
		}
		name, help := parts[1], strings.ReplaceAll(parts[2], `\"`, `"`)
		rows = append(rows, reference.Row(reference.Code(name), typeOfName(name), unitOfName(name), labelNames(parts[3]), help))
	}
	slices.Sort(rows)
	fmt.Fprintf(page, "## %s\n\n%s\n\n%s%s\n", title, about, reference.Table("metric", "type", "unit", "labels", "what it says"), strings.Join(rows, ""))
}

// describeAll is what all of the collectors describe.
func describeAll(collectors []prometheus.Collector) func(chan<- *prometheus.Desc) {
	return func(descs chan<- *prometheus.Desc) {
		for _, c := range collectors {
			c.Describe(descs)
		}
	}
}

// without leaves descriptors out.
func without(out func(*prometheus.Desc) bool, describe func(chan<- *prometheus.Desc)) func(chan<- *prometheus.Desc) {
	return func(descs chan<- *prometheus.Desc) {
		all := make(chan *prometheus.Desc)
		go func() {
			defer close(all)
			describe(all)
		}()
		for desc := range all {
			if !out(desc) {
				descs <- desc
			}
		}
	}
}

func labelNames(list string) string {
	if list == "" {
		return "–"
	}
	return "`" + strings.ReplaceAll(list, ",", "`, `") + "`"
}

// typeOfName follows the convention that names of counters end with _total and those of histograms with _duration_seconds.
func typeOfName(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_duration_seconds"):
		return "histogram"
	}
	return "gauge"
}

func unitOfName(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, unit := range []string{"bytes_per_second", "seconds", "bytes", "ratio"} {
		if strings.HasSuffix(name, "_"+unit) {
			return strings.ReplaceAll(unit, "_per_", " a ")
		}
	}
	return "–"
}
