package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// file has the rules of the chart.
const file = "../../deploy/charts/hilbert/files/alerts.yaml"

// bench evaluates the rules, a minute at a time.
type bench struct {
	series *promqltest.LazyLoader
	groups []*rules.Group
}

func newBench(t *testing.T, series string) *bench {
	t.Helper()
	text := "load 1m\n"
	for line := range strings.Lines(series) {
		text += "  " + line
	}
	p := parser.NewParser(parser.Options{})
	loader, err := promqltest.NewLazyLoader(text+"\n", promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true, Parser: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = loader.Close() })
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()), AppendableV2: loader.Storage(), Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler), Parser: p,
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	b := &bench{series: loader}
	for _, g := range groups {
		b.groups = append(b.groups, g)
	}
	return b
}

// evaluate evaluates all rules after some minutes.
func (b *bench) evaluate(t *testing.T, minute int) {
	t.Helper()
	at := time.Unix(0, 0).UTC().Add(time.Duration(minute) * time.Minute)
	b.series.WithSamplesTill(at, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range b.groups {
			g.Eval(b.series.Context(), at)
			for _, r := range g.Rules() {
				if err := r.LastError(); err != nil {
					t.Fatalf("%s after %d minutes: %v", r.Name(), minute, err)
				}
			}
		}
	})
}

// alerts are all alerts of the file.
func (b *bench) alerts() (list []*rules.AlertingRule) {
	for _, g := range b.groups {
		for _, r := range g.Rules() {
			if a, ok := r.(*rules.AlertingRule); ok {
				list = append(list, a)
			}
		}
	}
	return list
}

// state says how an alert stands: "-", or its instances by their labels, with their state.
func state(a *rules.AlertingRule) string {
	var active []string
	for _, x := range a.ActiveAlerts() {
		if x.State != rules.StateInactive {
			active = append(active, x.State.String()+" "+strings.ReplaceAll(x.Labels.String(), `alertname="`+a.Name()+`", `, ""))
		}
	}
	if len(active) == 0 {
		return "-"
	}
	slices.Sort(active)
	return strings.Join(active, "\n    ")
}

// TestAlerts plays the transcripts.
func TestAlerts(t *testing.T) {
	fires, silent := make(map[string]bool), make(map[string]bool)
	datadriven.RunTest(t, "testdata/alerts", func(t *testing.T, d *datadriven.TestData) string {
		var name string
		minutes := 0
		d.ScanArgs(t, "name", &name)
		d.ScanArgs(t, "minutes", &minutes)
		b := newBench(t, d.Input)
		at := slices.IndexFunc(b.alerts(), func(a *rules.AlertingRule) bool { return a.Name() == name })
		if at < 0 {
			d.Fatalf(t, "there is no alert %s", name)
		}
		var out strings.Builder
		last, fired := "", false
		for minute := range minutes + 1 {
			b.evaluate(t, minute)
			now := state(b.alerts()[at])
			fired = fired || strings.Contains(now, "firing")
			if now != last {
				fmt.Fprintf(&out, "%2dm %s\n", minute, now)
				last = now
			}
		}
		if fired {
			fires[name] = true
		} else {
			silent[name] = true
		}
		return out.String()
	})
	for _, a := range newBench(t, "").alerts() {
		if !fires[a.Name()] || !silent[a.Name()] {
			t.Errorf("%s: a case in which it fires: %t, one in which it does not: %t", a.Name(), fires[a.Name()], silent[a.Name()])
		}
	}
}

// TestQuietCluster: a cluster that is well has no alert at all, from its first minute on.
func TestQuietCluster(t *testing.T) {
	b := newBench(t, `hilbert_leader{pod="a"} 1x90
hilbert_leader{pod="b"} 0x90
hilbert_loop_responsive{pod="a"} 1x90
hilbert_bindings_total{pod="a",outcome="bound"} 0+100x90
hilbert_bindings_total{pod="a",outcome="unknown"} 0x90
hilbert_overcommitted_nodes{pod="a"} 0x90
hilbert_promise_policies_in_force{pod="a"} 1x90
hilbert_promise_policies_in_force{pod="b"} 0x90
hilbert_pods_held_back{pod="a"} 0x90
hilbert_missed_wakeups_total{pod="a"} 0x90
hilbert_event_queue_depth{pod="a"} 10x90
hilbert_event_queue_limit{pod="a"} 16384x90
hilbert_queue_ready{pod="a",queue="q"} 1x90
hilbert_agent_ready{pod="c"} 1x90
hilbert_agent_promises_total{pod="c",outcome="kept"} 0+1x90
hilbert_agent_promises_total{pod="c",outcome="broken"} 0x90
hilbert_headroom_reports{pod="a",state="fresh"} 5x90
hilbert_headroom_reports{pod="a",state="stale"} 0x90
`)
	for minute := range 91 {
		b.evaluate(t, minute)
		for _, a := range b.alerts() {
			if s := state(a); s != "-" {
				t.Errorf("%s after %d minutes: %s", a.Name(), minute, s)
			}
		}
	}
}
