package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/cmd/hilbertd/reload"
)

// reloader has a leader go on with its file when that has changed. What the file says and a running process cannot take is logged and counted, and waits for a restart.
type reloader struct {
	loop    *loop
	file    *reload.File
	level   *slog.LevelVar // of the log; nil: it stays as it is
	log     *slog.Logger
	meter   *configurationMeter
	running *spec.Configuration
}

// run looks at the file until ctx ends.
func (r *reloader) run(ctx context.Context) {
	ticker := time.NewTicker(reload.Every) // the file's time is the machine's
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.look(ctx)
		}
	}
}

// look has what has changed take effect.
func (r *reloader) look(ctx context.Context) {
	file, err := r.file.Read()
	if err != nil {
		r.refuse(err)
		return
	}
	if file == nil {
		return
	}
	change, err := reload.Divide(r.running, file)
	if err == nil && len(change.Applied) > 0 {
		err = r.apply(ctx, change.Next)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.refuse(err)
		return
	}
	r.running = change.Next
	r.meter.took(&change)
	configfile.WarnOfNoEffect(r.log, spec.NoEffect(file))
	switch {
	case len(change.Restart) > 0:
		r.log.Warn("the configuration file has changed, and not all of it can be applied before hilbertd is started again", "applied", change.Applied, "needRestart", change.Restart)
	case len(change.Applied) > 0:
		r.log.Info("the configuration file has changed and is in force", "applied", change.Applied)
	default:
		r.log.Info("the configuration file says what is in force")
	}
}

func (r *reloader) refuse(err error) {
	r.meter.refused()
	r.log.Error("the configuration file has changed and is refused; what was in force stays so", "err", err)
}

// apply has the loop go on with a configuration.
func (r *reloader) apply(ctx context.Context, c *spec.Configuration) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Logging.Level)); err != nil {
		return err
	}
	err := r.loop.do(ctx, func() error { return r.loop.reconfigure(c) })
	if err == nil && r.level != nil {
		r.level.Set(level)
	}
	return err
}

// do runs f in the loop's goroutine, between two rounds, and waits for it as long as ctx lasts.
func (l *loop) do(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	select {
	case l.asks <- func() { done <- f() }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reconfigure goes on with what a running scheduler can change; see reload.Divide.
func (l *loop) reconfigure(c *spec.Configuration) error {
	if err := l.scheduler.Reconfigure(c.Scheduling, l.ports.now()); err != nil {
		return err
	}
	l.config = c
	return nil
}

// configurationMeter says which configuration runs, and what came of changes of its file.
type configurationMeter struct {
	info    *prometheus.GaugeVec
	valid   prometheus.Gauge
	waiting prometheus.Gauge
	changes *prometheus.CounterVec
}

// The outcomes of changes.
const (
	changeApplied, changeWaits, changeRefused = "applied", "needs_restart", "refused"
)

func newConfigurationMeter() *configurationMeter {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &configurationMeter{
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hilbert_configuration_info", Help: "1, with a hash of the configuration that runs, defaults and flags included. Replicas with one configuration have the same.",
		}, []string{"hash"}),
		valid:   gauge("hilbert_configuration_file_valid", "0 while the configuration file is not valid, so that what was in force before stays so."),
		waiting: gauge("hilbert_configuration_fields_waiting", "Fields of the configuration file that take effect when hilbertd is started again."),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_configuration_changes_total", Help: "Changes of the configuration file, by outcome: applied, needs_restart for some of its fields, or refused.",
		}, []string{"outcome"}),
	}
	m.valid.Set(1)
	for _, outcome := range []string{changeApplied, changeWaits, changeRefused} {
		m.changes.WithLabelValues(outcome)
	}
	return m
}

func (m *configurationMeter) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.info, m.valid, m.waiting, m.changes}
}

// runs says what runs.
func (m *configurationMeter) runs(c *spec.Configuration) {
	m.info.Reset()
	m.info.WithLabelValues(reload.Hash(c)).Set(1)
}

func (m *configurationMeter) took(c *reload.Change) {
	m.runs(c.Next)
	m.valid.Set(1)
	m.waiting.Set(float64(len(c.Restart)))
	outcome := changeApplied
	if len(c.Restart) > 0 {
		outcome = changeWaits
	}
	m.changes.WithLabelValues(outcome).Inc()
}

func (m *configurationMeter) refused() {
	m.valid.Set(0)
	m.changes.WithLabelValues(changeRefused).Inc()
}
