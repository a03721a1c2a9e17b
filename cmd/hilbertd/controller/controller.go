package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/control/config"
	"hilbert.dev/hilbert/control/vpa"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/controller"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/moves"
)

const (
	// controllerTimeout bounds a write of the controller.
	controllerTimeout = 5 * time.Second
	// controllerPause is the least time between two decisions, controllerIdle the most.
	controllerPause = time.Second
	controllerIdle  = 30 * time.Second
	// countsEvery is how often the status of a NodeConfiguration is written for its counts alone.
	countsEvery = 10 * time.Second
)

// controllerRole is a controller that runs: it follows the cluster, and while it leads it decides and writes.
type controllerRole struct {
	watch   *controller.Watch
	writer  *controller.Writer
	elector *lease.Elector
	params  config.Params
	// disturbances are the limits of the budget that all who evict take from.
	disturbances budget.Limits
	log          *slog.Logger
	meter        *controllerMeter
	moves        *moveMeter
	tides        *tideMeter
	mover        *mover               // nil: nothing is moved
	counted      map[string]time.Time // when a status was last written, by object
	// recommends is nil where nothing is recommended, answers where no ResourceRequests are answered.
	recommends *recommender
	answers    *answerer
}

// disturbances is the budget that all who evict take from, each on a goroutine of its own: who asks holds the lock.
type disturbances struct {
	sync.Mutex
	budget *budget.Budget
}

// beginDisturbing is the budget of a leader that begins. What the one before has disturbed it does not know, so that nothing is saved up yet, unless there was none: who deletes a Lease to have one
// more burst may as well raise it.
func beginDisturbing(limits budget.Limits, takeover lease.Takeover, now time.Time) *disturbances {
	if takeover == lease.Absent {
		return &disturbances{budget: budget.New(limits, now)}
	}
	return &disturbances{budget: budget.NewEmpty(limits, now)}
}

// Options are what a configuration file cannot say.
type Options struct {
	Connection *apiserver.Connection
	Log        *slog.Logger
	// OnListen, if set, is called with the address of the endpoints once they are served.
	OnListen func(address string)
}

// Run runs the role until ctx ends.
func Run(ctx context.Context, c *spec.Configuration, o Options) error {
	connection, log := o.Connection, o.Log
	fence := lease.NewFence(c.LeaderElection.RenewDeadline.D(), controllerTimeout)
	elector, err := lease.NewElector(connection, c.LeaderElection, fence, log)
	if err != nil {
		return err
	}
	watch, err := controller.NewWatch(ctx, connection, log)
	if err != nil {
		return err
	}
	defer watch.Close()
	writer, err := controller.NewWriter(connection, fence, watch, controllerTimeout)
	if err != nil {
		return err
	}
	defer writer.Close()
	client, err := moves.New(connection, fence, controllerTimeout, moveTTL(moveLimits(&c.Rescheduling)), c.LeaderElection.Namespace)
	if err != nil {
		return err
	}
	defer client.Close()
	meter, tideMeter := newMoveMeter(), newTideMeter()
	tides, err := newTider(c, connection, fence, log, tideMeter)
	if err != nil {
		return err
	}
	defer tides.close()
	d := c.Controller.Disturbances
	r := &controllerRole{
		moves: meter, tides: tideMeter, mover: newMover(client, c.Rescheduling, tides, log, meter), watch: watch, writer: writer, elector: elector, params: config.Defaults(),
		disturbances: budget.Limits{PerHour: d.PodsPerHour, Burst: d.Burst}, log: log, meter: newControllerMeter(), counted: make(map[string]time.Time),
	}
	if r.recommends, err = newRecommender(c, connection, fence, r.meter, log); err != nil {
		return err
	}
	if r.recommends != nil {
		defer r.recommends.writer.Close()
		r.recommends.reader.LendingFrom(watch.Lending)
	}
	r.answers = newAnswerer(c, connection, fence, log)
	served, err := r.serve(c)
	if err != nil {
		return err
	}
	defer served.Close()
	served.Tell(o.OnListen)
	log.Info("hilbertd started", "version", version.Get().Version, "role", spec.RoleController, "identity", elector.Identity(), "apiServer", connection.Host, "address", served.At())
	defer log.Info("hilbertd stopped")
	for ctx.Err() == nil {
		term, err := elector.Campaign(ctx)
		if err != nil {
			if ctx.Err() == nil {
				return fmt.Errorf("the leader election ended: %w", err)
			}
			return nil
		}
		r.lead(ctx, term)
	}
	return nil
}

// lead decides and writes until the Lease is lost or ctx ends; then it gives the Lease back. Each write was answered by then.
func (r *controllerRole) lead(ctx context.Context, term *lease.Term) {
	r.meter.leader.Store(true)
	defer r.meter.leader.Store(false)
	d := beginDisturbing(r.disturbances, term.Takeover(), time.Now())
	stopMoves, stopRecommending, stopAnswering := r.mover.beside(ctx, d), r.recommends.begin(ctx, d), r.answers.begin(ctx)
	stop := func() { stopMoves(); stopRecommending(); stopAnswering() }
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			stop()
			term.Release()
			return
		case <-term.Lost():
			stop()
			r.log.Warn("lost the Lease; standing by")
			term.Abandon()
			return
		case <-r.watch.Changed():
		case <-timer.C:
		}
		wake := controllerIdle
		if r.watch.Listed() {
			wake = r.round(ctx, time.Now())
		}
		timer.Reset(max(wake, 0))
		// What changes while this waits is decided upon then: a thousand changes are one decision.
		pause := time.NewTimer(controllerPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		case <-term.Lost():
		}
		pause.Stop()
	}
}

// round decides once and writes what is due. It returns when to look again though nothing changes.
func (r *controllerRole) round(ctx context.Context, now time.Time) time.Duration {
	view := r.watch.View(now)
	actions, wake := config.Decide(&view, now, r.params)
	r.meter.decisions.Add(1)
	waiting := 0
	for i := range actions {
		if ctx.Err() != nil {
			break
		}
		switch a := &actions[i]; {
		case a.Status != nil:
			r.status(ctx, a.Status, now)
		case !r.writer.Allowed():
			waiting++
		default:
			err := r.writer.Tell(ctx, a.Tell)
			r.meter.wrote("node", err)
			if errors.Is(err, lease.ErrFenced) {
				r.log.Warn("nodes were not told their configuration: the leadership is running out", "first", a.Tell.Node)
				return 0 // all others would be refused too
			}
			if err != nil {
				waiting++
				r.log.Warn("a node was not told its configuration; it is tried again", "node", a.Tell.Node, "err", err)
			}
		}
	}
	r.meter.waiting.Store(int64(waiting))
	switch {
	case waiting > 0:
		return 0
	case wake.IsZero():
		return controllerIdle
	}
	return min(controllerIdle, wake.Sub(now))
}

// status writes the status of a NodeConfiguration where it must be, or where its counts have not been written for a while.
func (r *controllerRole) status(ctx context.Context, s *config.StatusWrite, now time.Time) {
	if !s.Changed && now.Sub(r.counted[s.Object]) < countsEvery {
		return
	}
	written, err := r.writer.Status(ctx, s)
	if written || err != nil {
		r.counted[s.Object] = now
		r.meter.wrote("status", err)
	}
	if err != nil {
		r.log.Warn("the status of a NodeConfiguration was not written; it is tried again", "name", s.Object, "err", err)
		return
	}
	if written && s.Changed && s.Status.Rollout != nil {
		r.log.Info("a NodeConfiguration", "name", s.Object, "percent", s.Status.Rollout.Percent, "rolledBack", s.Status.Rollout.RolledBack, "message", s.Status.Rollout.Message)
	}
}

// serve serves health checks and metrics; nil: none are wanted.
func (r *controllerRole) serve(c *spec.Configuration) (*endpoints.Server, error) {
	listener, err := endpoints.Listen(c.Server)
	if err != nil || listener == nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.meter, r.moves, r.tides)
	if r.answers != nil {
		registry.MustRegister(r.answers.meter)
	}
	registry.MustRegister(endpoints.ProcessCollectors()...)
	mux := endpoints.BasicPaths(func() error {
		if !r.watch.Listed() {
			return errors.New("not everything is listed yet")
		}
		return nil
	}, registry)
	endpoints.ServeProfiles(mux, c.Server, endpoints.LocalOnly)
	served, err := endpoints.Serve(listener, endpoints.CertificateOf(c.Server), mux, tls.NoClientCert, r.log)
	if err != nil {
		return nil, errors.Join(err, endpoints.CloseUnused(listener))
	}
	return served, nil
}

// controllerMeter exports what a controller does.
type controllerMeter struct {
	leader    atomic.Bool
	decisions atomic.Int64
	waiting   atomic.Int64
	// recommended are VerticalPodAutoscalers, disturbed pods.
	recommended, disturbed atomic.Int64
	left                   atomic.Pointer[vpa.LeftOut] // nil: nothing is recommended
	writes                 *prometheus.CounterVec
}

func controllerDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("hilbert_controller_"+name, help, nil, nil)
}

var (
	controllerLeader    = controllerDesc("leader", "1 while this process leads the controllers.")
	controllerDecisions = controllerDesc("decisions_total", "Decisions about which configuration is in force on which node.")
	controllerWaiting   = controllerDesc("nodes_waiting", "Nodes that are still to be told their configuration: at most 50 are told in a second.")
)

func newControllerMeter() *controllerMeter {
	return &controllerMeter{writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hilbert_controller_writes_total", Help: "Writes of the controller: of what a node is told (node), of the status of a NodeConfiguration or a VerticalPodAutoscaler (status), and for recommendations (checkpoint, reserve, release, resize, evict), by result.",
	}, []string{"what", "result"})}
}

// Metrics are the collectors of this role. They belong to no process: they describe their metrics, for the reference.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{newControllerMeter(), newMoveMeter(), newTideMeter(), newRequestMeter()}
}

func (m *controllerMeter) wrote(what string, err error) {
	result := "written"
	if err != nil {
		result = "failed"
	}
	m.writes.WithLabelValues(what, result).Inc()
}

// Describe implements prometheus.Collector.
func (m *controllerMeter) Describe(out chan<- *prometheus.Desc) {
	out <- controllerLeader
	out <- controllerDecisions
	out <- controllerWaiting
	out <- controllerRecommended
	out <- controllerDisturbed
	out <- controllerLeftOut
	m.writes.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *controllerMeter) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(controllerLeader, prometheus.GaugeValue, endpoints.OneIf(m.leader.Load()))
	out <- prometheus.MustNewConstMetric(controllerDecisions, prometheus.CounterValue, float64(m.decisions.Load()))
	out <- prometheus.MustNewConstMetric(controllerWaiting, prometheus.GaugeValue, float64(m.waiting.Load()))
	m.collectRecommendations(out)
	m.writes.Collect(out)
}
