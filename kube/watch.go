package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	policyv1client "k8s.io/client-go/kubernetes/typed/policy/v1"
	storagev1client "k8s.io/client-go/kubernetes/typed/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
)

// MaxQueuedEvents bounds the events that wait for the scheduler's goroutine. When the bound is reached the watches stop reading; the API
// server closes a watch that falls too far behind, and the resource is listed again.
const MaxQueuedEvents = 4096

// watchBackoffMax bounds the pause before a watch that cannot be made or broke is made again.
const watchBackoffMax = 5 * time.Second

// Watch delivers the changes of nodes and pods, and of what pods' constraints refer to: namespaces, the workloads that select pods, disruption
// budgets, and, if the API server has them, PodGroups, Queues and CustomNodeResources. A consistent list of each comes first (Lists knows when all have
// arrived), and again whenever a watch could not be resumed. The events of one resource come in order; events of different resources come in any order.
//
// Example: hilbertd starts. Events has the nodes and pods of the first lists, as facts.NodesListed and the like. When Lists has all, the leader may
// decide. A watch breaks for a minute: the resource is listed again, and one event replaces what is known of it.
type Watch struct {
	events  chan facts.Event
	ctx     context.Context // ends with Stop
	stop    context.CancelFunc
	running sync.WaitGroup
	tracked *trackedWatches
}

// WatchOptions says how what is watched is read.
type WatchOptions struct {
	// SchedulerName and Levels (the configured topology levels): see NewParser.
	SchedulerName string
	Levels        []string
	// Profiles: see Parser.
	Profiles map[string]uint8
	// StaleAfter is the age from which a CustomNodeResource is not acted on any more; 0 means defaultStaleAfter.
	StaleAfter time.Duration
	// LentStaleAfter is the same of what the node lends; 0 means defaultLentStaleAfter.
	LentStaleAfter time.Duration
	// UsageStaleAfter is the same of what the node uses; 0 means defaultUsageStaleAfter.
	UsageStaleAfter time.Duration
	// PromisedCPU: see Parser.
	PromisedCPU int
	// PoliciesMissing, if set, has promises made only while the admission policies that keep them true are in force. It is told each half minute what is missing
	// of them; empty: nothing is. It must not block.
	PoliciesMissing func(missing string)
	// OnUnreadablePromise, if set, is called for each bound pod that is read and whose promise of NUMA nodes cannot be. It must not block.
	OnUnreadablePromise func()
	// Clock is what the ages of reports go by; nil: the machine's.
	Clock clock.Clock
}

// The configuration's defaults of scheduling.nodeReports.staleAfter and scheduling.reclaimed.staleAfter.
const (
	defaultStaleAfter      = 15 * time.Minute
	defaultLentStaleAfter  = time.Minute
	defaultUsageStaleAfter = 3 * time.Minute
)

// StartWatch begins to list and watch. It does not wait for the API server: one that cannot be reached is tried for ever, with a
// backoff, and one line in the log when that begins and when it ends. It runs until Stop; ctx lends its values only.
func StartWatch(ctx context.Context, c *apiserver.Connection, o WatchOptions, log *slog.Logger) (*Watch, error) {
	own := apiserver.ForPurpose(c, "watch", nil)
	shared, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for watches: %w", err)
	}
	ctx, stop := context.WithCancel(apiserver.Silence(context.WithoutCancel(ctx)))
	w := &Watch{events: make(chan facts.Event, MaxQueuedEvents), ctx: ctx, stop: stop}
	out := outlet{ctx, w.events}
	parser := func() *parse.Parser { // one each: it serves one goroutine
		p := parse.NewParser(o.SchedulerName, log, o.Levels...)
		p.OnUnreadablePromise, p.Profiles, p.PromisedCPU = o.OnUnreadablePromise, o.Profiles, o.PromisedCPU
		return p
	}
	clients, readersErr := newReaders(own, shared)
	optionals, optionalsErr := newOptionals(own, shared, out, parser, log)
	if err := errors.Join(readersErr, optionalsErr); err != nil {
		stop()
		return nil, fmt.Errorf("make a client for watches: %w", err)
	}
	optionals.fresh.goBy(clock.OrReal(o.Clock))
	optionals.fresh.ages = staleAges{
		promises: cmp.Or(o.StaleAfter, defaultStaleAfter), lent: cmp.Or(o.LentStaleAfter, defaultLentStaleAfter),
		usage: cmp.Or(o.UsageStaleAfter, defaultUsageStaleAfter),
	}
	if o.PoliciesMissing != nil {
		if optionals.guard, err = newPolicyGuard(own, shared, optionals.fresh); err != nil {
			stop()
			return nil, fmt.Errorf("make a client for admission policies: %w", err)
		}
		optionals.fresh.unguarded, optionals.fresh.inForce = "it is not known yet whether they are", o.PoliciesMissing
	}
	note := healthOf(log)
	w.tracked = optionals.tracked

	w.runStorage(ctx, clients, out, parser, note)
	core, apps := clients.core, clients.apps
	pods := core.Pods(metav1.NamespaceAll)
	watches := newPodWatches()
	w.run(ctx, "pods", source(pods.List, pods.Watch, notFinished, note("pods")), &corev1.Pod{},
		&podSink{out: out, parser: parser(), watches: watches})
	w.run(ctx, "finished pods", source(pods.List, pods.Watch, hasFinished, note("finished pods")), &corev1.Pod{},
		&finishedSink{out: out, parser: parser(), watches: watches})
	nodes := core.Nodes()
	w.run(ctx, "nodes", source(nodes.List, nodes.Watch, "", note("nodes")), &corev1.Node{}, mirrorNodes(out, parser()))
	namespaces := core.Namespaces()
	w.run(ctx, "namespaces", source(namespaces.List, namespaces.Watch, "", note("namespaces")), &corev1.Namespace{}, mirrorNamespaces(out, parser()))
	services := core.Services(metav1.NamespaceAll)
	w.run(ctx, "services", source(services.List, services.Watch, "", note("services")), &corev1.Service{}, mirrorServices(out, parser()))
	controllers := core.ReplicationControllers(metav1.NamespaceAll)
	w.run(ctx, "replicationcontrollers", source(controllers.List, controllers.Watch, "", note("replicationcontrollers")),
		&corev1.ReplicationController{}, mirrorReplicationControllers(out, parser()))
	replicas := apps.ReplicaSets(metav1.NamespaceAll)
	w.run(ctx, "replicasets", source(replicas.List, replicas.Watch, "", note("replicasets")), &appsv1.ReplicaSet{}, mirrorReplicaSets(out, parser()))
	stateful := apps.StatefulSets(metav1.NamespaceAll)
	w.run(ctx, "statefulsets", source(stateful.List, stateful.Watch, "", note("statefulsets")), &appsv1.StatefulSet{}, mirrorStatefulSets(out, parser()))
	budgets := clients.policy.PodDisruptionBudgets(metav1.NamespaceAll)
	w.run(ctx, "poddisruptionbudgets", source(budgets.List, budgets.Watch, "", note("poddisruptionbudgets")),
		&policyv1.PodDisruptionBudget{}, mirrorBudgets(out, parser()))
	w.running.Go(func() { optionals.run(ctx) })
	return w, nil
}

// readers are the clients of the API groups that are watched. They share their sockets.
type readers struct {
	core    *corev1client.CoreV1Client
	apps    *appsv1client.AppsV1Client
	policy  *policyv1client.PolicyV1Client
	storage *storagev1client.StorageV1Client
}

func newReaders(c *apiserver.Connection, shared *http.Client) (*readers, error) {
	core, coreErr := corev1client.NewForConfigAndClient(c, shared)
	apps, appsErr := appsv1client.NewForConfigAndClient(c, shared)
	policy, policyErr := policyv1client.NewForConfigAndClient(c, shared)
	storage, storageErr := storagev1client.NewForConfigAndClient(c, shared)
	return &readers{core, apps, policy, storage}, errors.Join(coreErr, appsErr, policyErr, storageErr)
}

// Events delivers what happened, in the order in which it must be applied.
func (w *Watch) Events() <-chan facts.Event { return w.events }

// Stop ends the watches. What still waits in Events is of no use any more.
func (w *Watch) Stop() {
	w.stop()
	w.running.Wait()
}

func (w *Watch) run(ctx context.Context, name string, source cache.ListerWatcher, object any, sink cache.ReflectorStore) {
	reflector := newReflector(name, source, object, sink)
	w.tracked.track(name, source, reflector.LastSyncResourceVersion)
	w.running.Go(func() { reflector.RunWithContext(ctx) })
}

func newReflector(name string, source cache.ListerWatcher, object any, sink cache.ReflectorStore) *cache.Reflector {
	pause := apiserver.Backoff(watchBackoffMax)
	return cache.NewReflectorWithOptions(source, object, sink, cache.ReflectorOptions{Name: name, Backoff: &pause})
}

// source lists and watches one resource, through what its client offers.
func source[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
	follow func(context.Context, metav1.ListOptions) (watch.Interface, error),
	selector string, h *apiserver.Health,
) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			consistent(&o)
			o.FieldSelector = selector
			objects, err := list(ctx, o)
			h.Note(err)
			return objects, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			w, err := follow(ctx, o)
			h.Note(err)
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

// receiver takes events in, in their order.
type receiver interface{ send(facts.Event) error }

// outlet is the way into the bounded channel.
type outlet struct {
	ctx    context.Context
	events chan<- facts.Event
}

func (o outlet) send(event facts.Event) error {
	select {
	case o.events <- event:
		return nil
	case <-o.ctx.Done():
		return o.ctx.Err()
	}
}
