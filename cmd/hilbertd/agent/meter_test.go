package agent

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/plugins"
)

// What becomes of a ServiceProfile is seen on each node, for it has no status.
func TestProfilesAreMeasured(t *testing.T) {
	out := make(chan prometheus.Metric, 100)
	collectLending(out, &node.State{Steered: map[string]node.Steered{"shop/web": {Known: 2, Silent: 1}}, SteeredPools: map[string]int64{"web": 6000}})
	close(out)
	got := make(map[string]float64)
	for m := range out {
		var metric dto.Metric
		if err := m.Write(&metric); err != nil {
			t.Fatal(err)
		}
		if m.Desc() != agentProfiled && m.Desc() != agentSteered {
			continue
		}
		name := ""
		for _, l := range metric.GetLabel() {
			name += l.GetValue() + " "
		}
		got[name] = metric.GetGauge().GetValue()
	}
	if len(got) != 3 || got["shop/web known "] != 2 || got["shop/web missing "] != 1 || got["web "] != 6 {
		t.Errorf("got %v", got)
	}
}

// What plugins do and fail to do is counted.
func TestPluginsAreMeasured(t *testing.T) {
	out := make(chan prometheus.Metric, 200)
	collectAgentCounts(out, &node.State{Plugins: plugins.Counts{Allocated: 1, Released: 2, Refused: 3, Failures: 4, Lost: 5, Unknown: 6}})
	close(out)
	got := make(map[string]float64)
	for m := range out {
		var metric dto.Metric
		if err := m.Write(&metric); err != nil {
			t.Fatal(err)
		}
		if m.Desc() == agentPlugins {
			got[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		} else if m.Desc() == agentPluginFailed {
			got["failures"] = metric.GetCounter().GetValue()
		}
	}
	want := map[string]float64{"allocated": 1, "released": 2, "refused": 3, "failures": 4, "lost": 5, "unknown": 6}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
