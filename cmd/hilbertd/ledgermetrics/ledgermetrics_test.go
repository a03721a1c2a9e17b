package ledgermetrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
)

// world is a scheduler whose metrics are served.
type world struct {
	t         *testing.T
	scheduler *schedule.Scheduler
	registry  *prometheus.Registry
}

func newWorld(t *testing.T) *world {
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	s.Ready(time.Unix(0, 0))
	w := &world{t: t, scheduler: s, registry: prometheus.NewPedanticRegistry()}
	w.registry.MustRegister(w)
	return w
}

func (w *world) Describe(out chan<- *prometheus.Desc) { Describe(out) }
func (w *world) Collect(out chan<- prometheus.Metric) { Take(w.scheduler).Collect(out) }
func (w *world) apply(e facts.Event)                  { w.scheduler.Apply(e, time.Unix(0, 0)) }

func (w *world) scrape() string {
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), "GET", "/metrics", nil))
	return answer.Body.String()
}

func (w *world) expect(when string, lines ...string) {
	w.t.Helper()
	metrics := w.scrape()
	for _, line := range lines {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			w.t.Errorf("%s: /metrics lacks %q", when, line)
		}
	}
}

func cores(n int64) []resource.Quantity {
	return []resource.Quantity{{Name: resource.NameCPU, Amount: 1000 * n}}
}

// bound is a pod on a node.
func bound(name, node string) facts.Pod {
	return facts.Pod{UID: facts.UID(name), Namespace: "default", Name: name, Ours: true, Node: node, Requirements: &facts.Requirements{Requests: cores(1)}}
}
