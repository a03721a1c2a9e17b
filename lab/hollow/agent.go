package hollow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/topology"
)

// agentTimeout bounds a request of an agent, and a question to it.
const agentTimeout = 10 * time.Second

// maxReports is how many reports of all agents are on their way at once. Agents that share a clock want to write in the same instant, as those of a cluster do not; at a thousand of
// them each request then takes longer than agents wait for it, and all of them begin anew.
const maxReports = 64

// AgentOptions says how hollow agents are made.
type AgentOptions struct {
	// Machine is what each node is; see BigMachine.
	Machine *topology.Machine
	// Config is the agents' part of the configuration.
	Config spec.Node
	// Online is the share of their CPU requests that online pods want at first. 0: there is nothing to observe, and nothing is lent.
	Online float64
	// Model makes the load that of package corun, whatever Online is, and lets agents lend; nil: see Online.
	Model *Model
	// Clock is the time that agents and loads go by; nil: the machine's. With a Model, a load moves on in whole seconds.
	Clock clock.Clock
	// LawState is what the agents know at the start.
	LawState LawState
	// Began is told of each pod that begins to run; nil: nobody is.
	Began func(node string, pod *corev1.Pod)
	// Workers bounds the pods that start or end at once; 0 is 16.
	Workers int
	// Configured agents follow what their CustomNodeResource tells them of configuration, and keep it over a Restart.
	Configured bool
	// Faults are what the agents begin with, by the index of their node; nil: none.
	Faults func(i int) Fault
	// Log gets what the agents say; nil drops it.
	Log *slog.Logger
}

// Agents are the agents of hollow nodes: the agent of package node whole, with its loop, its lanes and its throttle, against the real API
// server. Only what is below it is played: a kernel that is a map, and a runtime that has one container in each pod. With AgentOptions.Online the kernel
// also counts what its pods use and wait for, by a model (see work), and the agents lend.
//
// One pod watch and a fixed number of workers play the kubelets of all nodes. A pod that is bound gets a sandbox; where the agent refuses
// it, it is tried again, as a kubelet would. A pod that is being deleted loses its sandbox first and its object then; one that was deleted
// without grace loses its sandbox when the watch tells of it. The status of pods is left as it is.
//
// Beside a Fleet that is not Frozen there must be none on the same nodes: both would delete the pods.
type Agents struct {
	client kubernetes.Interface
	nodes  map[string]*Agent
	pods   cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[podKey]

	atWork atomic.Int64 // workers that have a pod in hand
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// podKey is a pod: another one of the same name is another.
type podKey struct {
	cache.ObjectName

	uid  types.UID
	node string
}

// RunAgents starts an agent for each of the nodes, which exist. It returns when the pods are known. Stop ends the agents; nodes, pods and
// CustomNodeResources stay as they are.
func RunAgents(ctx context.Context, config *rest.Config, nodes []string, o AgentOptions) (*Agents, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the hollow agents: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Agents{client: client, nodes: make(map[string]*Agent, len(nodes))}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	slots := make(chan struct{}, maxReports)
	for i, name := range nodes {
		var fault Fault
		if o.Faults != nil {
			fault = o.Faults(i)
		}
		a, err := newAgent(running, config, name, o, slots, fault)
		if err != nil {
			f.Stop()
			return nil, fmt.Errorf("hollow agent of %s: %w", name, err)
		}
		f.nodes[name] = a
	}
	if err := f.watchPods(ctx, running, max(o.Workers, defaultWorkers)); err != nil {
		f.Stop()
		return nil, err
	}
	return f, nil
}

// Stop ends all agents and waits for them.
func (f *Agents) Stop() {
	f.cancel()
	if f.queue != nil {
		f.queue.ShutDown()
	}
	f.tasks.Wait()
	for _, a := range f.nodes {
		if a.told != nil {
			a.told.Stop()
		}
		a.stop()
		a.reporter.Close()
	}
}

// Agent returns the agent of a node, nil where there is none.
func (f *Agents) Agent(node string) *Agent { return f.nodes[node] }

// Bound is how many pods have a node, as far as the watch has told.
func (f *Agents) Bound() int { return len(f.pods.GetStore().ListKeys()) }

// Busy reports whether a pod is being started or ended, or waits for that.
func (f *Agents) Busy() bool { return f.queue.Len() > 0 || f.atWork.Load() > 0 }

// watchPods starts the one watch and the workers, and returns when the first listing is in the queue.
func (f *Agents) watchPods(ctx, running context.Context, workers int) error {
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[podKey](retryBase, retryMax))
	f.pods = cache.NewSharedIndexInformer(boundPods(f.client), &corev1.Pod{}, 0, nil)
	if err := f.pods.SetTransform(trimForAgent); err != nil {
		return fmt.Errorf("set up the pod watch of the agents: %w", err)
	}
	enqueue := func(object any) {
		if gone, missed := object.(cache.DeletedFinalStateUnknown); missed {
			object = gone.Obj
		}
		if pod, ok := object.(*corev1.Pod); ok && f.nodes[pod.Spec.NodeName] != nil {
			f.queue.Add(podKey{cache.ObjectName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID, pod.Spec.NodeName})
		}
	}
	handler, err := f.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }, DeleteFunc: enqueue,
	})
	if err != nil {
		return fmt.Errorf("set up the pod watch of the agents: %w", err)
	}
	f.tasks.Go(func() { f.pods.RunWithContext(running) })
	ctx, cancel := context.WithTimeoutCause(ctx, syncTimeout, fmt.Errorf("nothing after %s", syncTimeout))
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return fmt.Errorf("list the pods for the hollow agents: %w", context.Cause(ctx))
	}
	for range workers {
		f.tasks.Go(func() {
			for f.workOnce(running) {
			}
		})
	}
	return nil
}

// workOnce takes one pod from the queue and does what it needs next; false when the queue is closed.
func (f *Agents) workOnce(ctx context.Context) bool {
	key, closed := f.queue.Get()
	if closed {
		return false
	}
	f.atWork.Add(1)
	defer f.atWork.Add(-1)
	defer f.queue.Done(key)
	err := f.advance(ctx, key)
	if err == nil || ctx.Err() != nil {
		f.queue.Forget(key)
	} else {
		f.queue.AddRateLimited(key)
	}
	return true
}

// advance is what a kubelet does next for a pod.
func (f *Agents) advance(ctx context.Context, key podKey) error {
	a := f.nodes[key.node]
	object, exists, err := f.pods.GetStore().GetByKey(key.String())
	if err != nil {
		return err
	}
	pod, _ := object.(*corev1.Pod)
	switch {
	case !exists || pod.UID != key.uid, pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return a.end(ctx, key.uid)
	case pod.DeletionTimestamp != nil:
		if err := a.end(ctx, key.uid); err != nil {
			return err
		}
		return removePod(ctx, f.client, pod)
	}
	return a.begin(ctx, pod)
}

// errSilent is what an agent's write comes to that is kept from the API server.
var errSilent = errors.New("the report is lost on its way")
