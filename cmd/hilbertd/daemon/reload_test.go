package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/reload"
)

// reloadRig is a leader with a configuration file.
type reloadRig struct {
	*reloader
	t    *testing.T
	w    *world
	path string
	at   time.Time
	said bytes.Buffer
}

func newReloadRig(t *testing.T) *reloadRig {
	r := &reloadRig{t: t, w: newWorld(t), path: filepath.Join(t.TempDir(), "config.yaml"), at: time.Unix(1_800_000_000, 0)}
	r.write("")
	level := &slog.LevelVar{}
	r.reloader = &reloader{
		loop: r.w.loop, file: reload.NewFile(r.path, func(*spec.Configuration) {}), level: level, meter: r.w.meter.configuration, running: r.w.config,
		log: slog.New(slog.NewTextHandler(&r.said, nil)),
	}
	r.meter.runs(r.running)
	return r
}

// write writes the file; the defaults of the rig's world are not those of a file.
func (r *reloadRig) write(more string) {
	r.t.Helper()
	r.at = r.at.Add(time.Second)
	text := "apiVersion: config.hilbert.dev/v1alpha1\nkind: HilbertConfiguration\n" + more
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Chtimes(r.path, r.at, r.at); err != nil {
		r.t.Fatal(err)
	}
}

// looks has the file looked at while the loop comes round, and returns what was logged.
func (r *reloadRig) looks() string {
	r.t.Helper()
	r.said.Reset()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.look(r.t.Context())
	}()
	for {
		select {
		case question := <-r.w.asks:
			question()
		case <-done:
			return r.said.String()
		}
	}
}

func (r *reloadRig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.w.meter.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetValue())
			}
			if f.GetName() == name && strings.Join(has, " ") == strings.Join(labels, " ") {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// A file that has changed is in force without a start, as far as that can be; what cannot is named, and what is not valid changes nothing.
func TestReload(t *testing.T) {
	r := newReloadRig(t)
	const own = "scheduling: {binding: {writeTimeout: 20ms}, units: {maxReservations: 1}, scores: {LeastAllocated: 3}}\n"
	if said := r.looks(); said != "" {
		t.Errorf("nothing has changed, and it says %s", said)
	}
	before := reload.Hash(r.running)
	if r.metric("hilbert_configuration_info", before) != 1 {
		t.Error("the metric does not name what runs")
	}

	r.write("logging: {level: error}\n" + own)
	said := r.looks()
	if !strings.Contains(said, "level=INFO") || !strings.Contains(said, "[logging.level scheduling.scores scheduling.units]") {
		t.Errorf("it says %s", said)
	}
	now := r.w.scheduler.Config()
	if now.Units.MaxReservations != 1 || now.Scores["LeastAllocated"] != 3 || r.level.Level() != slog.LevelError || r.w.config.Logging.Level != "error" {
		t.Errorf("it runs with %+v, level %v", now, r.level)
	}
	if r.metric("hilbert_configuration_info", before) != 0 || r.metric("hilbert_configuration_info", reload.Hash(r.w.config)) != 1 || r.metric("hilbert_configuration_changes_total", "applied") != 1 {
		t.Error("the metrics do not tell")
	}

	r.write("logging: {level: loud}\n" + own)
	said = r.looks()
	if !strings.Contains(said, "level=ERROR") || !strings.Contains(said, "logging.level") || !strings.Contains(said, "line") && !strings.Contains(said, ":3:") {
		t.Errorf("it says %s", said)
	}
	if r.level.Level() != slog.LevelError || r.metric("hilbert_configuration_file_valid") != 0 || r.metric("hilbert_configuration_changes_total", "refused") != 1 {
		t.Error("what is not valid is in force, or does not show")
	}
	if said := r.looks(); said != "" {
		t.Errorf("it is told again: %s", said)
	}

	r.write("logging: {level: warn}\nschedulerName: other\n" + own)
	said = r.looks()
	if !strings.Contains(said, "level=WARN") || !strings.Contains(said, "needRestart=[schedulerName]") {
		t.Errorf("it says %s", said)
	}
	if r.w.config.SchedulerName != spec.DefaultSchedulerName || r.level.Level() != slog.LevelWarn || r.metric("hilbert_configuration_fields_waiting") != 1 ||
		r.metric("hilbert_configuration_changes_total", "needs_restart") != 1 || r.metric("hilbert_configuration_file_valid") != 1 {
		t.Errorf("it runs with scheduler name %q, level %v", r.w.config.SchedulerName, r.level)
	}
	r.write("logging: {level: warn}\n" + own)
	if said := r.looks(); !strings.Contains(said, "what is in force") || r.metric("hilbert_configuration_fields_waiting") != 0 {
		t.Errorf("it says %s", said)
	}
	// A term that begins goes on from it.
	if err := r.w.start(); err != nil || r.w.scheduler.Config().Units.MaxReservations != 1 {
		t.Errorf("%v, %+v", err, r.w.scheduler.Config().Units)
	}
}

// A loop that does not come round any more keeps nobody.
// TestReloadWithoutEffect: a field that does nothing is told when the file changes.
func TestReloadWithoutEffect(t *testing.T) {
	r := newReloadRig(t)
	r.write("scheduling: {overcommit: {maxPercent: 200}}\n")
	if said := r.looks(); !strings.Contains(said, `field=scheduling.overcommit.maxPercent why="it has no effect while scheduling.overcommit.mode is off`) {
		t.Error(said)
	}
}

func TestReloadEnds(t *testing.T) {
	r := newReloadRig(t)
	r.write("logging: {level: error}\n")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.look(ctx)
	}()
	cancel()
	<-done
	if r.said.Len() > 0 || r.w.config.Logging.Level == "error" {
		t.Errorf("it says %s", &r.said)
	}
}
