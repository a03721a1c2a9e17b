package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	decide "hilbert.dev/hilbert/control/vpa"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/vpa"
)

// recommender carries out what is decided about VerticalPodAutoscalers, while the controller leads.
type recommender struct {
	reader    *vpa.Reader
	writer    *vpa.Writer
	config    spec.Recommendation
	namespace string // of checkpoints
	log       *slog.Logger
	meter     *controllerMeter
}

// newRecommender returns nil where nothing is recommended.
func newRecommender(c *spec.Configuration, connection *apiserver.Connection, fence *lease.Fence, meter *controllerMeter, log *slog.Logger) (*recommender, error) {
	r := c.Controller.Recommendation
	if !r.Enabled {
		return nil, nil
	}
	reader, err := vpa.NewReader(connection, r.Recommender, r.ChangePods, log)
	if err != nil {
		return nil, err
	}
	writer, err := vpa.NewWriter(connection, fence, reader, vpa.WriterOptions{SchedulerName: c.SchedulerName, Namespace: c.LeaderElection.Namespace, Timeout: controllerTimeout})
	if err != nil {
		return nil, err
	}
	return &recommender{
		reader: reader, writer: writer, config: r, namespace: c.LeaderElection.Namespace, log: log, meter: meter,
	}, nil
}

// params are what the decision goes by.
func (r *recommender) params() decide.Params {
	const percent = 100.0
	p, c := decide.DefaultParams(), &r.config
	p.ControlGroup, p.SaveEvery, p.ChangePods = float64(c.ControlGroupPercent)/percent, c.CheckpointInterval.D(), c.ChangePods
	p.Recommend.ShrinkAfter = c.Rollout.ShrinkAfter.D()
	p.Rollout.Canary, p.Rollout.Confidence, p.Rollout.Throttled = float64(c.Rollout.CanaryPercent)/percent, float64(c.Rollout.ConfidencePercent)/percent, float64(c.Rollout.ThrottledPercent)/percent
	p.Rollout.Watch, p.Rollout.Pause = c.Rollout.Watch.D(), c.Rollout.Pause.D()
	p.Rollout.PauseMost = max(p.Rollout.PauseMost, p.Rollout.Pause)
	return p
}

// begin recommends until stop is called, which waits for what is under way.
func (r *recommender) begin(ctx context.Context, d *disturbances) (stop func()) {
	if r == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx, d)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (r *recommender) run(ctx context.Context, d *disturbances) {
	state := decide.NewState(r.params())
	restored := false
	for {
		if !restored {
			// Without what was saved, statuses would be written from a few minutes of use.
			if err := r.reader.Restore(ctx, r.namespace, state); err != nil {
				r.log.Warn("checkpoints cannot be read; nothing is recommended meanwhile", "err", err)
				state = decide.NewState(r.params())
			} else {
				restored = true
			}
		}
		if restored {
			r.round(ctx, state, d)
		}
		timer := time.NewTimer(r.config.Interval.D())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// round reads, decides, and carries out what is due. What fails is decided upon anew in the next round.
func (r *recommender) round(ctx context.Context, state *decide.State, d *disturbances) {
	view, ok := r.reader.View(ctx, time.Now())
	if !ok {
		return
	}
	now := time.Now()
	failed := make(map[decide.Key]bool)
	d.Lock()
	actions := state.Decide(&view, d.budget, now)
	d.Unlock()
	for _, a := range actions {
		if ctx.Err() != nil {
			return
		}
		if failed[a.Object] && a.Status == nil {
			continue // a pod is changed only once its rollout's state is saved
		}
		what, err := r.writer.Do(ctx, &a, now)
		r.meter.wrote(what, err)
		if err != nil {
			if a.Save != nil {
				failed[a.Object] = true
			}
			if a.Resize != nil && !errors.Is(err, lease.ErrFenced) {
				state.Refused(a.Object, a.Resize, err.Error(), now)
			}
			if a.Evict != nil && errors.Is(err, vpa.ErrRefused) {
				d.Lock()
				state.EvictionRefused(d.budget)
				d.Unlock()
			}
			r.log.Warn("a recommendation was not carried out; it is tried again", "what", what, "verticalPodAutoscaler", a.Object.String(), "err", err)
			continue
		}
		r.tell(what, &a)
	}
	r.meter.recommended.Store(int64(len(view.Objects)))
	r.meter.disturbed.Store(int64(state.Disturbed()))
	r.meter.left.Store(new(state.LeftOut()))
}

// tell logs what changes pods.
func (r *recommender) tell(what string, a *decide.Action) {
	switch {
	case a.Resize != nil:
		r.log.Info("a pod was resized", "pod", a.Resize.Pod.Namespace+"/"+a.Resize.Pod.Name, "container", a.Resize.Container,
			"cpu", fmt.Sprintf("%.3f", a.Resize.Requests.CPU), "memory", int64(a.Resize.Requests.Memory), "reason", a.Reason)
	case a.Evict != nil:
		r.log.Info("a pod is made anew", "pod", a.Evict.Pod.Namespace+"/"+a.Evict.Pod.Name, "reason", a.Reason)
	case a.Status == nil && a.Save == nil:
		r.log.Debug("a recommendation", "what", what, "verticalPodAutoscaler", a.Object.String(), "reason", a.Reason)
	}
}

var (
	controllerRecommended = controllerDesc("vertical_pod_autoscalers", "VerticalPodAutoscalers that name our recommender, as of the last round.")
	controllerLeftOut     = prometheus.NewDesc("hilbert_controller_recommendations_left_out", "What the last round left out, by bound: objects (VerticalPodAutoscalers beyond 5,000; of each namespace the first by name are served), pods (beyond 1,000 of one object) and containers (of pods, beyond 16 names in one object).", []string{"bound"}, nil)
	controllerDisturbed   = controllerDesc("disturbed_pods", "Pods that were disturbed for recommendations since this process leads: evicted, or restarted by a resize.")
)

// collectRecommendations exports what the recommender does.
func (m *controllerMeter) collectRecommendations(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(controllerRecommended, prometheus.GaugeValue, float64(m.recommended.Load()))
	out <- prometheus.MustNewConstMetric(controllerDisturbed, prometheus.GaugeValue, float64(m.disturbed.Load()))
	if left := m.left.Load(); left != nil {
		for bound, n := range map[string]int{"objects": left.Objects, "pods": left.Pods, "containers": left.Containers} {
			out <- prometheus.MustNewConstMetric(controllerLeftOut, prometheus.GaugeValue, float64(n), bound)
		}
	}
}
