package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
	"hilbert.dev/hilbert/lab/report"
)

const (
	// tick is how often the run looks at itself.
	tick = 100 * time.Millisecond
	// stopTimeout bounds the orderly end of the control plane.
	stopTimeout = 30 * time.Second
)

// Why a run ended early.
var (
	// ErrTimeout: the time that Options allow is over.
	ErrTimeout = errors.New("the time limit has passed")
	// ErrNothingBound: the work is there, and the scheduler placed none of it.
	ErrNothingBound = errors.New("hilbertd bound no pod")
)

// Options say what to run.
type Options struct {
	// Work to do; see Manifests and Replay.
	Work Work
	// Timeout bounds the run, once everything is started.
	Timeout time.Duration
	// Progress gets lines for people; nil is nowhere. Terminal rewrites one line in place.
	Progress io.Writer
	Terminal bool
	// RunScale is how many of a pod's run-seconds pass in one second; 0 is 1.
	RunScale float64
	// EtcdQuotaBytes bounds the database of the control plane, 0 as it comes; a small one is like a full disk.
	EtcdQuotaBytes int64
}

// Work is something for a cluster to do, and the cluster that it is meant for.
type Work interface {
	title() string
	source() string
	notes() []string
	shapes() []hollow.Shape
	controllers() bool // whether it needs the workload controllers
	pods() int         // how many pods there will be
	awaitsEnds() bool  // whether the run is to wait for pods that end by themselves
	create(context.Context, kubernetes.Interface, *recorder) error
}

// Lab is a running cluster with hilbertd in charge of it.
type Lab struct {
	options   Options
	progress  *progress
	shapes    []hollow.Shape
	plane     *controlplane.ControlPlane
	client    kubernetes.Interface
	fleet     *hollow.Fleet
	scheduler *scheduler
}

// Start brings the cluster up and hilbertd to lead it. ctx bounds the start only; Stop ends what was started.
func Start(ctx context.Context, o Options) (_ *Lab, err error) {
	l := &Lab{options: o, progress: newProgress(o.Progress, o.Terminal), shapes: o.Work.shapes()}
	defer func() {
		if err != nil {
			_ = l.Stop(context.WithoutCancel(ctx)) // err says why; an error of this stop would only hide it
		}
	}()
	began := time.Now()
	l.progress.say("starting etcd and kube-apiserver ...")
	l.plane, err = controlplane.Start(ctx, controlplane.Options{Controllers: o.Work.controllers(), EtcdQuotaBytes: o.EtcdQuotaBytes})
	if err != nil {
		return nil, err
	}
	l.progress.say("  ready after %.1f s", time.Since(began).Seconds())
	if l.client, err = kubernetes.NewForConfig(l.plane.AdminConfig()); err != nil {
		return nil, fmt.Errorf("client of the demo: %w", err)
	}
	l.progress.say("registering %d hollow nodes ...", len(l.shapes))
	if l.fleet, err = hollow.Run(ctx, l.plane.AdminConfig(), l.shapes, hollow.Options{TimeScale: o.RunScale}); err != nil {
		return nil, l.orFailure(err)
	}
	if l.scheduler, err = startScheduler(ctx, l.plane, l.client, l.progress); err != nil {
		return nil, l.orFailure(err)
	}
	l.progress.say("  hilbertd leads after %.1f s", time.Since(began).Seconds())
	return l, nil
}

// ControlPlane is the control plane, while the lab runs.
func (l *Lab) ControlPlane() *controlplane.ControlPlane { return l.plane }

// Failed waits until ctx ends, and returns nil, or until a part of the lab dies, and returns its error.
func (l *Lab) Failed(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-l.plane.Failed():
		return fmt.Errorf("the control plane died: %w", err)
	case <-l.scheduler.ended:
		return fmt.Errorf("hilbertd ended: %w", l.scheduler.err)
	}
}

// Stop ends everything.
func (l *Lab) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if l.scheduler != nil {
		l.scheduler.stop()
	}
	if l.fleet != nil {
		l.fleet.Stop()
	}
	if l.plane != nil {
		return l.plane.Stop(ctx)
	}
	return nil
}

// orFailure prefers the death of the control plane over what it caused.
func (l *Lab) orFailure(err error) error {
	select {
	case cause := <-l.plane.Failed():
		return fmt.Errorf("the control plane died: %w (meanwhile: %w)", cause, err)
	default:
		return err
	}
}

// Run gives the cluster its work, watches until all that can be placed is, and returns the record. With an error the record is that of
// what happened until then; it is nil only where nothing could be watched.
func (l *Lab) Run(ctx context.Context) (*report.Run, error) {
	work := l.options.Work
	l.progress.say("creating %s: %d pods ...", work.source(), work.pods())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	r := newRecorder(l.shapes, began)
	watched, err := r.follow(ctx, l.client, spec.DefaultSchedulerName)
	if err != nil {
		return nil, l.orFailure(fmt.Errorf("watch the pods: %w", err))
	}
	created := make(chan error, 1)
	go func() { created <- work.create(ctx, l.client, r) }()
	err = l.watch(ctx, r, created)
	ended := time.Now()
	r.next = ended // the last state counts, whatever the rhythm
	r.sample(ended)
	l.progress.end()
	cancel()
	watched()
	return l.record(r, began, ended, err), err
}

// watch waits for the end of the run: nil when its work is done.
func (l *Lab) watch(ctx context.Context, r *recorder, created <-chan error) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	timeout := time.NewTimer(l.options.Timeout)
	defer timeout.Stop()
	complete := false
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		case <-timeout.C:
			return fmt.Errorf("%w (%s)", ErrTimeout, l.options.Timeout)
		case err := <-l.plane.Failed():
			return fmt.Errorf("the control plane died: %w", err)
		case <-l.scheduler.ended:
			return fmt.Errorf("hilbertd ended: %w", l.scheduler.err)
		case err := <-created:
			if err != nil {
				return l.causeOf(err)
			}
			complete, created = true, nil
		case at := <-ticker.C:
			now := r.sample(at)
			l.progress.show(now, l.options.Work.pods())
			if complete && r.settled(at, l.options.Work) {
				if now.Bound == 0 && now.Created > 0 {
					return ErrNothingBound
				}
				return nil
			}
		}
	}
}

// causeOf waits a moment for the control plane to say that it died, which explains a failed request better than the request does.
func (l *Lab) causeOf(err error) error {
	select {
	case cause := <-l.plane.Failed():
		return fmt.Errorf("the control plane died: %w (meanwhile: %w)", cause, err)
	case <-time.After(failureGrace):
		return err
	}
}

// failureGrace is how long a failed request waits for its explanation.
const failureGrace = 2 * time.Second
