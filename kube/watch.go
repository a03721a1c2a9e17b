package kube

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/cluster"
)

// MaxQueuedEvents bounds the events that wait for the scheduler's goroutine. When they are too many the watches stand still; the API
// server closes one that falls too far behind, and it is listed anew.
const MaxQueuedEvents = 4096

// The backoff of a watch that cannot be made or breaks.
const (
	watchBackoffFirst  = 200 * time.Millisecond
	watchBackoffMax    = 5 * time.Second
	watchBackoffFactor = 2.0
	watchBackoffJitter = 0.5
)

// Watch delivers what happens to nodes and pods: one consistent list of each first (cluster.NodesListed, cluster.PodsListed), and again
// whenever a watch could not be resumed, with the changes between. The events of one resource come in order; between nodes and pods
// there is none.
type Watch struct {
	events  chan cluster.Event
	stop    context.CancelFunc
	running sync.WaitGroup
}

// StartWatch begins to list and watch. It does not wait for the API server: one that cannot be reached is tried for ever, with a
// backoff, and one line in the log when that begins and when it ends. It runs until Stop; ctx lends its values only.
func StartWatch(ctx context.Context, c *Connection, schedulerName string, log *slog.Logger) (*Watch, error) {
	client, err := corev1client.NewForConfig(purposed(c, "watch", nil))
	if err != nil {
		return nil, fmt.Errorf("make a client for watches: %w", err)
	}
	ctx, stop := context.WithCancel(silence(context.WithoutCancel(ctx)))
	w := &Watch{events: make(chan cluster.Event, MaxQueuedEvents), stop: stop}
	pods := &podSink{
		out:    outlet{ctx, w.events},
		parser: NewParser(schedulerName, log),
		seen:   newFingerprints(),
	}
	nodes := &nodeSink{
		out:    outlet{ctx, w.events},
		parser: NewParser(schedulerName, log),
		known:  make(map[string]*cluster.Node),
	}
	w.run(ctx, "pods", podSource(client, &health{log: log, what: "the API server (pods)"}), &corev1.Pod{}, pods)
	w.run(ctx, "nodes", nodeSource(client, &health{log: log, what: "the API server (nodes)"}), &corev1.Node{}, nodes)
	return w, nil
}

// Events delivers what happened, in the order in which it must be applied.
func (w *Watch) Events() <-chan cluster.Event { return w.events }

// Stop ends the watches. What still waits in Events is of no use any more.
func (w *Watch) Stop() {
	w.stop()
	w.running.Wait()
}

func (w *Watch) run(ctx context.Context, name string, source cache.ListerWatcher, object any, sink cache.ReflectorStore) {
	reflector := cache.NewReflectorWithOptions(source, object, sink, cache.ReflectorOptions{
		Name: name,
		Backoff: &wait.Backoff{
			Duration: watchBackoffFirst, Cap: watchBackoffMax, Factor: watchBackoffFactor, Jitter: watchBackoffJitter,
			Steps: 16, // more than it takes to reach Cap
		},
	})
	w.running.Go(func() { reflector.RunWithContext(ctx) })
}

// notFinished selects the pods that may hold something of a node. One that finishes leaves the selection, which the watch reports as a
// deletion.
var notFinished = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
).String()

func podSource(client corev1client.PodsGetter, h *health) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			consistent(&o)
			o.FieldSelector = notFinished
			list, err := client.Pods(metav1.NamespaceAll).List(ctx, o)
			h.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = notFinished
			w, err := client.Pods(metav1.NamespaceAll).Watch(ctx, o)
			h.note(err)
			return w, err
		},
	}
}

func nodeSource(client corev1client.NodesGetter, h *health) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			consistent(&o)
			list, err := client.Nodes().List(ctx, o)
			h.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Nodes().Watch(ctx, o)
			h.note(err)
			return w, err
		},
	}
}

// consistent turns "whatever the API server has in its cache", which is what a Reflector asks for at first, into "what is agreed now": a
// new leader must see all that was bound before it. (A streamed list asks for that by itself.)
func consistent(o *metav1.ListOptions) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion = ""
	}
}

func (h *health) note(err error) {
	if err != nil {
		h.failed(err)
		return
	}
	h.succeeded()
}

// outlet is the way into the bounded channel.
type outlet struct {
	ctx    context.Context
	events chan<- cluster.Event
}

func (o *outlet) send(event cluster.Event) error {
	select {
	case o.events <- event:
		return nil
	case <-o.ctx.Done():
		return o.ctx.Err()
	}
}
