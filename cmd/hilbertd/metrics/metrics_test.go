package metrics

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/reports"
	"hilbert.dev/hilbert/control/metrics"
)

// TestOneWorkloadWithoutHistory: a workload of which the history server has no good answer keeps no other from its history.
func TestOneWorkloadWithoutHistory(t *testing.T) {
	asked := make(map[string]int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "web"
		if strings.Contains(r.FormValue("query"), `"a-bad"`) {
			name = "a-bad"
		}
		if asked[name]++; name == "a-bad" {
			http.Error(w, "too many samples", http.StatusUnprocessableEntity)
			return
		}
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	}))
	defer server.Close()
	c := spec.Default().Metrics
	c.Prometheus.URL, c.Prometheus.CPUQuery = server.URL, "x{namespace=$namespace, workload=$workload, pod=~$pods}"
	m, err := newRole(&c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m.meter = newMeter(m, &reports.Receiver{})
	now := time.Now()
	forecast, _ := metrics.Find("hilbert_cpu_use_forecast")
	for _, name := range []string{"a-bad", "web", "web-2"} {
		w := metrics.Workload{Namespace: "shop", Kind: "Deployment", Name: name}
		m.SetPod(&metrics.Pod{UID: name, Namespace: "shop", Name: name, Node: "n1", Workload: w, Running: now.Add(-time.Hour)})
		var seen metrics.Collector
		seen.See(spec.PodRef{UID: name}, metrics.CPUUse, 1, now)
		m.take("n1", seen.Take(now), now)
		if _, err := m.Workload(w, &forecast); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		m.fill(t.Context(), now)
		now = now.Add(historyRetry)
	}
	if asked["a-bad"] != 2 || asked["web"] != 2 {
		t.Errorf("asked is %v; want each of the others once, and the bad one again", asked)
	}
	if w, _ := m.store.Unfilled(metrics.Workload{}); w.Name != "a-bad" {
		t.Errorf("%s has no history", w)
	}
}

// TestForecastsAreMadeAsConfigured: the quantile and whether rises are forecast reach the store.
func TestForecastsAreMadeAsConfigured(t *testing.T) {
	c := spec.Default().Metrics
	m, err := newRole(&c, slog.New(slog.DiscardHandler))
	if err != nil || m.params.Forecast.Quantile != 0.9 || !m.params.Forecast.Rises {
		t.Errorf("by default: %+v, %v", m.params.Forecast, err)
	}
	c.ForecastQuantile, c.ForecastRises = 0.5, new(false)
	if m, err = newRole(&c, slog.New(slog.DiscardHandler)); err != nil || m.params.Forecast.Quantile != 0.5 || m.params.Forecast.Rises {
		t.Errorf("as written: %+v, %v", m.params.Forecast, err)
	}
}
