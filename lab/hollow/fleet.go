// Package hollow plays the part of a cluster's nodes: it registers Node objects and does for their pods what a kubelet would
// report, without running anything.
//
// A pod bound to a hollow node becomes Running with one status patch; with the annotation lab.hilbert.dev/run-seconds it becomes
// Succeeded that long after, with one more. A pod being deleted is removed at once, or when the sleep of its preStop hook is over. Node leases are renewed only
// if asked. With Options.Strict pods that do not fit are refused as a kubelet refuses them, and extended resources are copied from capacity to allocatable.
//
// Invariants: all nodes share one pod watch and a fixed number of workers. What is to be done next is read off the pod itself,
// so a fleet may be stopped and started again at any time and goes on where it was. Pods on nodes that are not of the fleet
// are left alone.
//
// It does not run containers, probes or volumes, enforce limits, or report resource use. A volume counts as mounted as soon as its pod is bound.
package hollow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// defaultWorkers is how many status writes are in flight at once unless Options say otherwise.
	defaultWorkers = 16
	// registerWorkers is how many nodes are registered at once.
	registerWorkers = 16
	// retryBase and retryMax bound the wait before a failed write is tried again.
	retryBase, retryMax = 50 * time.Millisecond, 10 * time.Second
	// syncTimeout bounds the first listing of pods.
	syncTimeout = 60 * time.Second
)

// Options says how the nodes behave.
type Options struct {
	// StatusWorkers bounds the writes in flight; 0 is 16.
	StatusWorkers int
	// LeaseInterval is how often each node renews its lease; 0 is never.
	LeaseInterval time.Duration
	// TimeScale is how many of a pod's run-seconds pass in one second; 0 is 1.
	TimeScale float64
	// Strict makes the nodes as particular as kubelets are: upstream's end-to-end tests need that. It keeps whole pods in memory, and looks at all pods of a node
	// for each that is admitted there.
	Strict bool
	// Resizes has containers say what they have been given, and follow what their pods ask for at once. Without it the API server refuses to resize them.
	Resizes bool
	// Frozen registers the nodes and then writes nothing, nor watches anything (benchmarks).
	Frozen bool
}

// Fleet is a set of hollow nodes at work.
type Fleet struct {
	client kubernetes.Interface
	nodes  map[string]nodeInfo
	scale  float64
	starts starts
	// resizes is Options.Resizes.
	resizes bool
	pods    cache.SharedIndexInformer
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	strict  *strict // nil without Options.Strict

	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// nodeInfo is what the status of a pod repeats of its node.
type nodeInfo struct{ ip string }

// Run registers a node for each shape and plays them until Stop. It returns when all nodes exist and the pods are known. Nodes
// that exist already are adopted as they are, but for a status and labels that differ from their shape's, which are corrected.
func Run(ctx context.Context, config *rest.Config, shapes []Shape, o Options) (*Fleet, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the hollow nodes: %w", err)
	}
	f := &Fleet{client: client, nodes: make(map[string]nodeInfo, len(shapes)), scale: o.TimeScale, resizes: o.Resizes}
	if f.scale <= 0 {
		f.scale = 1
	}
	for i, s := range shapes {
		if _, twice := f.nodes[s.Name]; twice {
			return nil, fmt.Errorf("two hollow nodes are named %q", s.Name)
		}
		f.nodes[s.Name] = nodeInfo{ip: nodeIP(i)}
	}
	if err := f.register(ctx, shapes); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	if o.Frozen {
		return f, nil
	}
	workers := o.StatusWorkers
	if workers <= 0 {
		workers = defaultWorkers
	}
	if err := f.watchPods(ctx, running, workers, o.Strict); err != nil {
		f.Stop()
		return nil, err
	}
	if o.LeaseInterval > 0 {
		f.tasks.Go(func() { f.renewLeases(running, shapes, o.LeaseInterval) })
	}
	return f, nil
}

// Stop ends all work of the fleet and waits for it. The Node objects and the pods stay as they are.
func (f *Fleet) Stop() {
	f.cancel()
	if f.queue != nil {
		f.queue.ShutDown()
	}
	if f.strict != nil {
		f.strict.queue.ShutDown()
	}
	f.tasks.Wait()
}

func (f *Fleet) register(ctx context.Context, shapes []Shape) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(registerWorkers, len(shapes)) {
		workers.Go(func() {
			for i := range next {
				if err := f.registerNode(ctx, shapes[i], i); err != nil {
					cancel(fmt.Errorf("register hollow node %q: %w", shapes[i].Name, err))
					return
				}
			}
		})
	}
feed:
	for i := range shapes {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (f *Fleet) registerNode(ctx context.Context, s Shape, i int) error {
	want := s.node(i, metav1.Now())
	_, err := f.client.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return f.adoptNode(ctx, want)
}

// watchPods starts the one watch and the workers, and returns when the first listing is in the queue.
func (f *Fleet) watchPods(ctx, running context.Context, workers int, strict bool) error {
	f.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](retryBase, retryMax))
	f.pods = cache.NewSharedIndexInformer(boundPods(f.client), &corev1.Pod{}, 0, cache.Indexers{})
	if strict {
		if err := f.startStrict(ctx, running); err != nil {
			return err
		}
	} else if err := f.pods.SetTransform(f.trim); err != nil {
		return fmt.Errorf("set up the pod watch: %w", err)
	}
	enqueue := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok && f.owns(pod) {
			f.queue.Add(cache.ObjectName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	handler, err := f.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
		DeleteFunc: func(object any) {
			if gone, missed := object.(cache.DeletedFinalStateUnknown); missed {
				object = gone.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				f.starts.forget(pod.UID)
				f.forgetAdmitted(pod.UID)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("set up the pod watch: %w", err)
	}
	f.tasks.Go(func() { f.pods.RunWithContext(running) })
	ctx, cancel := context.WithTimeoutCause(ctx, syncTimeout, fmt.Errorf("nothing after %s", syncTimeout))
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return fmt.Errorf("list the pods for the hollow nodes: %w", context.Cause(ctx))
	}
	for range workers {
		f.tasks.Go(func() {
			for f.workOnce(running) {
			}
		})
	}
	return nil
}

func (f *Fleet) owns(pod *corev1.Pod) bool {
	_, ours := f.nodes[pod.Spec.NodeName]
	return ours
}

// workOnce takes one pod from the queue and does what it needs next; false when the queue is closed.
func (f *Fleet) workOnce(ctx context.Context) bool {
	name, closed := f.queue.Get()
	if closed {
		return false
	}
	defer f.queue.Done(name)
	object, exists, err := f.pods.GetStore().GetByKey(name.String())
	if err != nil || !exists {
		f.queue.Forget(name)
		return true
	}
	again, err := f.advance(ctx, object.(*corev1.Pod), time.Now())
	switch {
	case err == nil:
		f.queue.Forget(name)
		if again > 0 {
			f.queue.AddAfter(name, again)
		}
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		f.queue.Forget(name) // the pod is gone, or another one has its name: the watch will say
	case errors.Is(err, context.Canceled):
	default:
		f.queue.AddRateLimited(name)
	}
	return true
}
