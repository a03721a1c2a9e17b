package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/agent"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/cmd/hilbertd/controller"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/cmd/hilbertd/metrics"
	"hilbert.dev/hilbert/cmd/hilbertd/realnode"
	"hilbert.dev/hilbert/cmd/hilbertd/reload"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/devices"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/kube/write"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/events"
	"hilbert.dev/hilbert/schedule/relief"
)

// Options are what a configuration file cannot say.
type Options struct {
	// Connection to the API server; nil reads clientConnection.kubeconfig.
	Connection *apiserver.Connection
	// Roots are where an agent or a watchdog finds its node; nil: where the kernel has it.
	Roots *realnode.Roots
	// Log; nil makes the one that the configuration asks for. Level is what of it can be changed; nil: nothing.
	Log   *slog.Logger
	Level *slog.LevelVar
	// File is the configuration's; a leader goes on with it when it changes. nil: there is none.
	File *reload.File
	// OnListen, if set, is called first, with the address of the endpoints.
	OnListen func(address string)
	// Clock is the time that decisions go by; nil: the machine's. The Lease and the time limits of writes go by the machine's always. It is for the roles of
	// the scheduler.
	Clock clock.Clock
	// OnPeersListen, if set, is called first, with the address for schedulers in other processes.
	OnPeersListen func(address string)
	// OnSynced, if set, is called once everything is listed for the first time, or, in a scheduler of a leader elsewhere, when all nodes are known for the first time. It must not block.
	OnSynced func()
	// OnMetrics, if set, is called first, with what /metrics shows; for the roles of the scheduler.
	OnMetrics func(prometheus.Gatherer)
}

// connect returns the connection to the API server that was given, or the one that the configuration names.
func (o Options) connect(config *spec.Configuration) (*apiserver.Connection, error) {
	if o.Connection != nil {
		return o.Connection, nil
	}
	return apiserver.Connect(config.ClientConnection.Kubeconfig)
}

// Run runs a hilbertd until ctx ends, and then returns nil. It fails only at the start: if the configuration, the kubeconfig or the address to serve on
// cannot work. Several may run in one process.
func Run(ctx context.Context, config *spec.Configuration, o Options) error {
	if err := configfile.Check(config); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	log := o.Log
	if log == nil {
		log, o.Level = NewLogger(config.Logging)
	}
	configfile.WarnOfNoEffect(log, spec.NoEffect(config))
	roots := realnode.Real()
	if o.Roots != nil {
		roots = *o.Roots
	}
	onNode := agent.Options{Connection: o.Connection, Roots: roots, Log: log, OnListen: o.OnListen}
	switch { // Check has verified that these are the only roles
	case slices.Contains(config.Roles, spec.RoleAgent):
		return agent.Run(ctx, config, onNode)
	case slices.Contains(config.Roles, spec.RoleWatchdog):
		return agent.RunWatchdog(ctx, config, onNode)
	case spec.IsScheduler(config.Roles):
		return runScheduler(ctx, config, o, log)
	}
	connection, err := o.connect(config)
	if err != nil {
		return err
	}
	switch {
	case slices.Contains(config.Roles, spec.RoleController):
		return controller.Run(ctx, config, controller.Options{Connection: connection, Log: log, OnListen: o.OnListen})
	case slices.Contains(config.Roles, spec.RoleMetrics):
		return metrics.Run(ctx, config, metrics.Options{Connection: connection, Log: log, OnListen: o.OnListen})
	}
	return runLeader(ctx, connection, config, o, log)
}

// runLeader schedules, or stands by.
func runLeader(ctx context.Context, connection *apiserver.Connection, config *spec.Configuration, o Options, log *slog.Logger) error {
	by := clock.OrReal(o.Clock)
	m := newMeter(by.Now, log)
	endTraces, err := m.trace(config.Tracing)
	if err != nil {
		return err
	}
	defer endTraces()
	listener, err := endpoints.Listen(config.Server)
	if err != nil {
		return err
	}
	p, elector, err := connect(ctx, connection, config, thisProcess{m, listener, by, log})
	if err != nil {
		return errors.Join(err, endpoints.CloseUnused(listener))
	}
	l := newLoop(config, p, m, log)
	if o.OnSynced != nil {
		l.onSynced = o.OnSynced
	}
	m.registry.MustRegister(l)
	review, err := visibility.NewReviewer(connection)
	if err != nil {
		return errors.Join(err, endpoints.CloseUnused(listener))
	}
	i := newInspector(l, review)
	m.registry.MustRegister(questionMeter{i, review})
	if o.OnMetrics != nil {
		o.OnMetrics(m.registry)
	}
	files := endpoints.CertificateOf(config.Server)
	visible, err := newVisibility(ctx, connection, files, elector.Leader, log)
	if err != nil {
		return errors.Join(err, endpoints.CloseUnused(listener))
	}
	visible.Rights, visible.Answers = review, i
	s, err := serve(i, listener, files, visible)
	if err != nil {
		return err
	}
	defer s.Close()
	s.Tell(o.OnListen)
	if spec.IsLeader(config.Roles) {
		served, err := servePeers(config, connection, l, o)
		if err != nil {
			return err
		}
		defer served.Close()
	}
	m.configuration.runs(config)
	if o.File != nil {
		r := &reloader{loop: l, file: o.File, level: o.Level, log: log, meter: m.configuration, running: config}
		reloading, stop := context.WithCancel(ctx)
		var ended sync.WaitGroup
		ended.Go(func() { r.run(reloading) })
		defer ended.Wait()
		defer stop()
	}
	log.Info("hilbertd started", "version", version.Get().Version, "identity", elector.Identity(), "apiServer", connection.Host,
		"schedulerName", config.SchedulerName, "address", s.At())
	defer log.Info("hilbertd stopped")
	return l.run(ctx)
}

// thisProcess is what the API server's clients need of this process.
type thisProcess struct {
	meter    *meter
	listener net.Listener // nil: nothing is served
	clock    clock.Clock
	log      *slog.Logger
}

func (d *thisProcess) address() string {
	if d.listener == nil {
		return ""
	}
	return d.listener.Addr().String()
}

// policiesMissing is what hears of missing admission policies; nil: nobody asks for them. It logs what changes.
func policiesMissing(config *spec.Configuration, m *meter, log *slog.Logger) func(string) {
	if config.Scheduling.NodeReports.Policies == spec.PoliciesIgnore {
		return nil
	}
	last := ""
	return func(missing string) {
		m.guarded.Set(endpoints.OneIf(missing == ""))
		switch {
		case missing == last:
		case missing != "":
			log.Warn("nothing is promised of nodes: admission policies are not in force. Apply deploy/policies, or set scheduling.nodeReports.policies to Ignore", "missing", missing)
		default:
			log.Info("the admission policies are in force: promises are made")
		}
		last = missing
	}
}

// connect implements the loop's ports with package kube.
func connect(ctx context.Context, c *apiserver.Connection, config *spec.Configuration, d thisProcess) (p ports, elector *lease.Elector, err error) {
	m, log := d.meter, d.log
	binding := config.Scheduling.Binding
	fence := lease.NewFence(config.LeaderElection.RenewDeadline.D(), binding.WriteTimeout.D())
	elector, err = lease.NewElector(c, config.LeaderElection, fence, log)
	if err != nil {
		return p, nil, err
	}
	if err := elector.Advertise(d.address()); err != nil {
		return p, nil, err
	}
	return ports{
		watch: func() (watch, error) {
			return kube.StartWatch(ctx, c, kube.WatchOptions{
				SchedulerName: config.SchedulerName, Profiles: config.Scheduling.ProfileNumbers(), Levels: config.Scheduling.Topology.Levels,
				StaleAfter:          config.Scheduling.NodeReports.StaleAfter.D(),
				LentStaleAfter:      config.Scheduling.Reclaimed.StaleAfter.D(),
				UsageStaleAfter:     config.Scheduling.NodeReports.UsageStaleAfter.D(),
				PromisedCPU:         config.Scheduling.Overcommit.Percent(),
				OnUnreadablePromise: m.unreadable.Inc,
				Clock:               d.clock,
				PoliciesMissing:     policiesMissing(config, m, log),
			}, log)
		},
		writer: func() (writer, error) {
			return write.New(ctx, c, fence, write.Options{
				Workers: binding.MaxInFlight + bind.MaxConditionsInFlight + bind.MaxEvictionsInFlight + bind.MaxGiveBacksInFlight + relief.MaxInFlight + events.MaxInFlight + events.MaxPodsInFlight, Timeout: binding.WriteTimeout.D(),
				SchedulerName: config.SchedulerName, Sent: m.sent,
			})
		},
		devices: devices.NewAllocator(ctx, devices.MaxTime),
		queues: func() (queueWriter, error) {
			return write.NewQueueWriter(ctx, c, fence, binding.WriteTimeout.D(), m.queueWritten)
		},
		campaign: func(ctx context.Context) (term, error) {
			t, err := elector.Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return t, nil
		},
		fence: realFence{fence},
		now:   d.clock.Now,
		by:    d.clock,
	}, elector, nil
}

// realFence asks the fence of the Lease by the machine's time, whatever decisions go by.
type realFence struct{ fence *lease.Fence }

func (f realFence) Open(_ time.Time, timeout time.Duration) bool {
	return f.fence.Open(time.Now(), timeout)
}
