package metrics

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/cmd/hilbertd/history"
	"hilbert.dev/hilbert/cmd/hilbertd/reports"
	"hilbert.dev/hilbert/control/metrics"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube/apiserver"
	kubemetrics "hilbert.dev/hilbert/kube/metrics"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/node/store"
)

const (
	// tick is how often profiles see the live load.
	tick = 15 * time.Second
	// checkpointEvery is how often profiles are written to disk, groupsEvery how often the APIServices are looked at.
	checkpointEvery = 10 * time.Minute
	groupsEvery     = 5 * time.Minute
	// historyRetry is the pause after a history server did not answer. Each tick asks for one workload: after a failure for the next, so that one with no answer keeps none from the others.
	historyRetry = time.Minute
)

// role answers autoscalers from what agents send. Each replica does so for itself.
type role struct {
	config *spec.Metrics
	log    *slog.Logger
	params metrics.Params
	pods   *kubemetrics.Pods
	began  time.Time
	meter  *meter

	mu    sync.Mutex
	store *metrics.Store

	// The rest belongs to the loop.
	history   *history.Client // nil: none is configured
	askAfter  time.Time       // the history server
	askedOf   metrics.Workload
	written   time.Time
	groups    *kubemetrics.Groups
	holders   map[string]kubemetrics.Holder
	lookedAt  time.Time
	keep      store.Store // nil: profiles are not kept
	unwritten string      // the last error of writing, so that it is told once
}

// SetPod implements kube/metrics' Sink.
func (m *role) SetPod(p *metrics.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store.SetPod(p)
}

// DeletePod implements kube/metrics' Sink.
func (m *role) DeletePod(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store.DeletePod(uid)
}

// KeepPods implements kube/metrics' Sink.
func (m *role) KeepPods(uids map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store.KeepPods(uids)
}

// Pods implements kube/metrics' Values.
func (m *role) Pods(namespace string, match func(p *metrics.Pod) bool, n *metrics.Name) ([]metrics.PodValue, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.store.Pods(namespace, match, n, time.Now())
	m.meter.answered("pods", err)
	return v, err
}

// Workload implements kube/metrics' Values.
func (m *role) Workload(w metrics.Workload, n *metrics.Name) (metrics.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.store.Workload(w, n, time.Now())
	m.meter.answered("workload", err)
	return v, err
}

func (m *role) take(node string, r *metrics.Report, now time.Time) metrics.Taken {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store.Take(node, r, now)
}

// newRole makes the role without its connections.
func newRole(c *spec.Metrics, log *slog.Logger) (*role, error) {
	m := &role{config: c, log: log, params: metrics.DefaultParams(), began: time.Now()}
	m.params.StaleAfter, m.params.MaxProfiles = c.StaleAfter.D(), *c.MaxForecasts
	m.params.Forecast.Quantile, m.params.Forecast.Rises = c.ForecastQuantile, *c.ForecastRises
	m.store = metrics.NewStore(&m.params)
	peaks, err := configfile.Peaks(c.Peaks)
	if err != nil {
		return nil, err
	}
	m.store.SetPeaks(peaks)
	if c.Prometheus.URL != "" {
		if m.history, err = history.New(&c.Prometheus); err != nil {
			return nil, err
		}
	}
	if c.Checkpoint != "" {
		m.keep = store.File(c.Checkpoint)
		m.restore()
	}
	m.written = m.began
	return m, nil
}

// restore reads the profiles. Without them forecasts begin anew, which is no failure.
func (m *role) restore() {
	text, err := m.keep.Load()
	if err != nil || len(text) == 0 {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.log.Warn("the profiles of before cannot be read; they begin anew", "err", err)
		}
		return
	}
	n, err := m.store.Restore(text, time.Now())
	if err != nil {
		m.log.Warn("not all profiles of before can be read; the others begin anew", "read", n, "err", err)
	}
}

// Options are what a configuration file cannot say.
type Options struct {
	// Connection to the API server.
	Connection *apiserver.Connection
	Log        *slog.Logger
	// OnListen, if set, is called with the address of the endpoints once they are served.
	OnListen func(address string)
}

// Run runs the role until ctx ends. It fails only at the start.
func Run(ctx context.Context, c *spec.Configuration, o Options) error {
	connection, log := o.Connection, o.Log
	m, err := newRole(&c.Metrics, log)
	if err != nil {
		return err
	}
	nodes, err := kubemetrics.NewNodes(connection, c.Metrics.AgentAccount)
	if err != nil {
		return err
	}
	review, err := visibility.NewReviewer(connection)
	if err != nil {
		return err
	}
	if m.groups, err = kubemetrics.NewGroups(connection); err != nil {
		return err
	}
	defer m.groups.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	proxy, err := visibility.WatchFrontProxy(ctx, connection, log)
	if err != nil {
		return err
	}
	receiver := &reports.Receiver{Identify: nodes.Identify, Take: m.take, Log: log}
	m.meter = newMeter(m, receiver)
	if m.pods, err = kubemetrics.WatchPods(ctx, connection, m, log); err != nil {
		return err
	}
	served, err := m.serve(c, receiver, &kubemetrics.Server{Proxy: proxy, Rights: review, Values: m, Log: log})
	if err != nil {
		return err
	}
	defer served.Close()
	served.Tell(o.OnListen)
	log.Info("hilbertd started", "version", version.Get().Version, "role", spec.RoleMetrics, "apiServer", connection.Host, "address", served.At())
	defer log.Info("hilbertd stopped")
	m.run(ctx)
	return nil
}

// run does what is due until ctx ends.
func (m *role) run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		now := time.Now()
		m.mu.Lock()
		m.store.Tick(now)
		m.mu.Unlock()
		m.fill(ctx, now)
		m.lookAtGroups(ctx, now)
		if now.Sub(m.written) >= checkpointEvery {
			m.checkpoint(now)
		}
		select {
		case <-ctx.Done():
			m.checkpoint(time.Now())
			return
		case <-ticker.C:
		}
	}
}

// fill asks the history server what one workload used before its profile began.
func (m *role) fill(ctx context.Context, now time.Time) {
	if m.history == nil || now.Before(m.askAfter) {
		return
	}
	m.mu.Lock()
	w, ok := m.store.Unfilled(m.askedOf)
	m.mu.Unlock()
	if !ok {
		return
	}
	m.askedOf = w
	f := &m.params.Forecast
	longest := time.Duration(0)
	for _, period := range f.Periods {
		longest = max(longest, period*time.Duration(f.Kept))
	}
	until := now.Truncate(f.Step)
	loads, err := m.history.CPU(ctx, w, until.Add(-longest), until, f.Step)
	m.meter.asked(err)
	if err != nil {
		m.askAfter = now.Add(historyRetry)
		m.log.Warn("the history server does not say what a workload used; it is asked again, and its forecast begins with what agents send", "err", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store.Fill(w, loads)
}

// lookAtGroups looks whom the APIServices lead to, and says so when that changes.
func (m *role) lookAtGroups(ctx context.Context, now time.Time) {
	if !m.lookedAt.IsZero() && now.Sub(m.lookedAt) < groupsEvery {
		return
	}
	m.lookedAt = now
	holders, err := m.groups.Ask(ctx)
	if err != nil {
		m.log.Debug("cannot see whom the metrics APIs lead to", "err", err)
		return
	}
	for name, holder := range holders {
		if was, known := m.holders[name]; known && was == holder || holder == kubemetrics.Ours || holder == "" {
			continue
		}
		m.log.Warn("a metrics API leads to another server, which is left as it is: autoscalers get nothing from this one by it", "apiService", name, "service", holder)
	}
	m.holders = holders
	m.meter.setHolders(holders)
}

// checkpoint writes the profiles, where they are kept.
func (m *role) checkpoint(now time.Time) {
	m.written = now
	if m.keep == nil {
		return
	}
	m.mu.Lock()
	text, err := m.store.Checkpoint(now)
	m.mu.Unlock()
	if err == nil {
		err = m.keep.Save(text)
	}
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != m.unwritten && said != "" {
		m.log.Warn("the profiles are not written to disk; it is tried again", "file", m.config.Checkpoint, "err", err)
	}
	m.unwritten = said
}

// ready is nil once every agent has had the time to send.
func (m *role) ready(now time.Time) error {
	if !m.pods.Listed() {
		return errors.New("pods are not listed yet")
	}
	if wait := m.params.StaleAfter / 2; now.Sub(m.began) < wait {
		return fmt.Errorf("for %s after the start agents are waited for", wait)
	}
	return nil
}

// serve serves health checks, metrics of this process, agents and kube-apiserver's proxy.
func (m *role) serve(c *spec.Configuration, agents http.Handler, api *kubemetrics.Server) (*endpoints.Server, error) {
	listener, err := endpoints.Listen(c.Server)
	if err != nil || listener == nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.meter)
	registry.MustRegister(endpoints.ProcessCollectors()...)
	mux := endpoints.BasicPaths(func() error { return m.ready(time.Now()) }, registry)
	mux.Handle("POST "+reports.Path, agents)
	endpoints.ServeProfiles(mux, c.Server, endpoints.LocalOnly)
	api.Register(mux)
	served, err := endpoints.Serve(listener, endpoints.CertificateOf(c.Server), mux, tls.RequestClientCert, m.log)
	if err != nil {
		return nil, errors.Join(err, endpoints.CloseUnused(listener))
	}
	return served, nil
}
