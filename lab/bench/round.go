package bench

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Round is what one contestant did in one round.
type Round struct {
	Round                    int     `json:"round,omitempty"`
	PodsPerSecond            float64 `json:"podsPerSecond"`
	SchedulerCPUMicrosPerPod float64 `json:"schedulerCPUMicrosPerPod"`
	APIServerCPUMicrosPerPod float64 `json:"apiServerCPUMicrosPerPod"`
	EtcdCPUMicrosPerPod      float64 `json:"etcdCPUMicrosPerPod"`
	SchedulerPeakBytes       int64   `json:"schedulerPeakBytes"`
	APIServerPeakBytes       int64   `json:"apiServerPeakBytes"`
	EtcdPeakBytes            int64   `json:"etcdPeakBytes"`
	// Requests per pod by verb and resource, and how many of them are writes.
	Requests     requests `json:"requests"`
	WritesPerPod float64  `json:"writesPerPod"`
	// GangsTold is how many PodGroups said that they are scheduled when the clock stopped.
	GangsTold int `json:"gangsTold,omitempty"`
	// Seconds is the time from the first to the last nodeName seen.
	Seconds float64 `json:"seconds"`
}

// round runs one contestant over a fresh set of pods.
func (h *harness) round(ctx context.Context, c contestant) (_ Round, err error) {
	if err := h.holdLease(ctx, c.lease); err != nil {
		return Round{}, err
	}
	if err := h.createGroups(ctx); err != nil {
		return Round{}, fmt.Errorf("create the PodGroups: %w", err)
	}
	if err := h.createPods(ctx, c.scheduler); err != nil {
		return Round{}, fmt.Errorf("create the pods: %w", err)
	}
	sink, err := h.watchBindings(ctx)
	if err != nil {
		return Round{}, err
	}
	defer sink.stop()
	args := append([]string{c.command, "--kubeconfig=" + h.kubeconfig, "--dir=" + h.dir}, c.args...)
	child, err := spawn(ctx, h.dir, c.name, args...)
	if err != nil {
		return Round{}, err
	}
	stopped := false
	defer func() {
		if !stopped {
			child.stop()
		}
	}()
	if err := h.awaitRest(ctx); err != nil {
		return Round{}, err
	}
	round, err := h.measure(ctx, c, child, sink)
	if err != nil {
		return Round{}, err
	}
	child.stop()
	stopped = true
	if err := h.deletePods(ctx); err != nil {
		return Round{}, err
	}
	if err := h.deleteGroups(ctx); err != nil {
		return Round{}, err
	}
	return round, h.compact(ctx)
}

// measure releases the Lease and reads the clocks.
func (h *harness) measure(ctx context.Context, c contestant, child *process, sink *bindings) (Round, error) {
	processes := []*process{child, h.server, h.etcd}
	for _, p := range processes[1:] {
		if err := p.forgetPeak(); err != nil {
			return Round{}, err
		}
	}
	asked, err := h.asked(ctx)
	if err != nil {
		return Round{}, err
	}
	before, err := cpuOf(processes...)
	if err != nil {
		return Round{}, err
	}
	if err := h.releaseLease(ctx, c.lease); err != nil {
		return Round{}, err
	}
	first, last, err := sink.await(ctx, h.options.Pods, child)
	if err != nil {
		return Round{}, err
	}
	select {
	case <-time.After(settle - time.Since(last)):
	case <-ctx.Done():
		return Round{}, context.Cause(ctx)
	}
	after, err := cpuOf(processes...)
	if err != nil {
		return Round{}, err
	}
	now, err := h.asked(ctx)
	if err != nil {
		return Round{}, err
	}
	r := Round{Seconds: last.Sub(first).Seconds(), Requests: now.since(asked, h.options.Pods)}
	r.WritesPerPod = r.Requests.writes()
	if r.GangsTold, err = h.whole(ctx); err != nil {
		return Round{}, err
	}
	r.PodsPerSecond = float64(h.options.Pods-1) / r.Seconds
	for i, to := range []*float64{&r.SchedulerCPUMicrosPerPod, &r.APIServerCPUMicrosPerPod, &r.EtcdCPUMicrosPerPod} {
		*to = float64((after[i] - before[i]).Microseconds()) / float64(h.options.Pods)
	}
	for i, to := range []*int64{&r.SchedulerPeakBytes, &r.APIServerPeakBytes, &r.EtcdPeakBytes} {
		if *to, err = processes[i].peak(); err != nil {
			return Round{}, err
		}
	}
	return r, nil
}

// bindings is the one watch that measures: it notes when it sees a pod with a nodeName for the first time.
type bindings struct {
	harness *harness
	watch   watch.Interface
	cancel  context.CancelFunc
	version string
}

// watchBindings starts to watch for bound pods. None may be bound yet.
func (h *harness) watchBindings(ctx context.Context) (*bindings, error) {
	list, err := h.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	b := &bindings{harness: h, version: list.ResourceVersion}
	return b, b.resume(ctx)
}

// resume continues where the watch was: a server closes the watch of a client that falls behind.
func (b *bindings) resume(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	w, err := b.harness.client.CoreV1().Pods(namespace).Watch(watching, metav1.ListOptions{
		FieldSelector: "spec.nodeName!=", ResourceVersion: b.version, AllowWatchBookmarks: true,
	})
	if err != nil {
		cancel()
		return fmt.Errorf("watch pods: %w", err)
	}
	b.stop()
	b.watch, b.cancel = w, cancel
	return nil
}

func (b *bindings) stop() {
	if b.watch != nil {
		b.watch.Stop()
		b.cancel()
	}
}

// await returns when n pods have been seen bound, and when the first and the last of them were.
func (b *bindings) await(ctx context.Context, n int, child *process) (first, last time.Time, err error) {
	seen := make(map[string]bool, n)
	idle := time.NewTimer(stalled)
	defer idle.Stop()
	for len(seen) < n {
		select {
		case event, open := <-b.watch.ResultChan():
			now := time.Now()
			bound, err := b.take(ctx, event, open)
			if err != nil {
				return first, last, err
			}
			if bound == "" || seen[bound] {
				continue
			}
			seen[bound] = true
			if len(seen) == 1 {
				first = now
			}
			last = now
			idle.Reset(stalled)
		case <-child.ended:
			return first, last, fmt.Errorf("after %d of %d pods: %w", len(seen), n, child.died())
		case <-idle.C:
			return first, last, fmt.Errorf("no new Binding for %s, %d of %d pods are bound; the log of %s ends with:\n%s",
				stalled, len(seen), n, child.name, child.tail())
		case <-ctx.Done():
			return first, last, context.Cause(ctx)
		}
	}
	return first, last, nil
}

// take returns the name of the pod that an event shows bound, or "".
func (b *bindings) take(ctx context.Context, event watch.Event, open bool) (string, error) {
	if !open {
		return "", b.resume(ctx)
	}
	if event.Type == watch.Error {
		return "", fmt.Errorf("watch of the harness: %w", apierrors.FromObject(event.Object))
	}
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return "", fmt.Errorf("watch of the harness: unexpected %T", event.Object)
	}
	b.version = pod.ResourceVersion
	if event.Type == watch.Bookmark || event.Type == watch.Deleted || pod.Spec.NodeName == "" {
		return "", nil
	}
	return pod.Name, nil
}
