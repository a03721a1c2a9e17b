package decide

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	scenarios "hilbert.dev/hilbert/bench"
)

const (
	// memoryBinder is the Bind plugin in DefaultBinder's place: it makes no API call.
	memoryBinder = "MemoryBinder"
	// kubeAhead is how many pods wait in kube-scheduler's queue, so that its loop never waits for the harness.
	kubeAhead = 64
	// kubeAheadOfVolumes is how many wait there, or for their volumes: kube-scheduler looks only each second whether a volume has come, and decides on
	// far fewer in that time.
	kubeAheadOfVolumes = 256
	// kubeStuck is how long a decision may take before the run is given up.
	kubeStuck = time.Minute
)

// kubeSide is kube-scheduler as scheduler.New makes it: its queue, cache, framework and scheduling loop. Its informers are never started;
// their indexers, the queue and the cache are fed by hand. Its API client answers from memory.
type kubeSide struct {
	ctx       context.Context // carries the silent logger that every upstream call wants
	cancel    context.CancelFunc
	ended     chan struct{} // the loop has
	scheduler *scheduler.Scheduler
	templates []*corev1.Pod
	classes   map[string]int
	known     cache.Indexer // pods, as far as preemption asks for them
	preempts  bool
	claims    *kubeClaims   // nil: pods have none
	tokens    chan struct{} // one for each pod, or gang, that may be fed
	restore   func()        // of the feature gates; nil: nothing was changed

	created int
	left    int

	mu        sync.Mutex // guards what follows: the loop's goroutines write it
	ring      []*corev1.Pod
	preemptor *corev1.Pod // bound
	victims   int
	unplaced  int
	gangs     kubeGangs
}

// newKubeSide returns a running loop with the same pods on the same nodes as Hilbert's, in gangs of so many members unless that is 0.
func newKubeSide(s *scenarios.Scenario, members int, pods []placed) (*kubeSide, error) {
	k := &kubeSide{ended: make(chan struct{}), classes: make(map[string]int), preempts: s.Case == scenarios.Preempt}
	k.gangs = kubeGangs{members: members, known: make(map[string]*kubeGang)}
	k.ctx, k.cancel = context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	if err := k.fill(s, pods); err != nil {
		k.abandon()
		return nil, err
	}
	ahead := max(1, min(kubeAhead, len(pods)/256))
	switch {
	case k.preempts:
		ahead = 1 // a second would only make the first's nomination cost more
	case s.Case == scenarios.NewVolumes:
		ahead = max(1, min(kubeAheadOfVolumes, len(pods)/4))
	case members > 0:
		ahead = max(2, min(kubeAhead, len(pods)/members/16)) // one is decided while the next is fed
	}
	k.tokens = make(chan struct{}, ahead)
	for range ahead {
		k.tokens <- struct{}{}
	}
	go func() {
		k.scheduler.Run(k.ctx)
		close(k.ended)
	}()
	return k, nil
}

// fill makes the loop and puts the pods on their nodes.
func (k *kubeSide) fill(s *scenarios.Scenario, pods []placed) (err error) {
	if k.gangs.members > 0 {
		if k.restore, err = enableGangs(); err != nil {
			return err
		}
	}
	if err := k.build(s); err != nil {
		return err
	}
	if k.gangs.members > 0 {
		return k.fillGangs(pods)
	}
	for _, p := range pods {
		pod := k.pod(p.class, 0)
		pod.Spec.NodeName, pod.Status.StartTime = p.node, startTime(p.started)
		if k.claims != nil {
			k.claims.use(pod, p.claim)
			if err := k.claims.addUsed(&p, pod); err != nil {
				return err
			}
		}
		if err := k.bound(pod); err != nil {
			return err
		}
		k.ring = append(k.ring, pod)
	}
	return nil
}

func (k *kubeSide) build(s *scenarios.Scenario) error {
	profile, err := kubeProfile(s.Case)
	if err != nil {
		return err
	}
	client := &memoryClient{side: k}
	factory := scheduler.NewInformerFactory(client, 0, nil)
	if hasClaims(s.Case) {
		k.claims = newKubeClaims(s.Case, factory)
	}
	k.scheduler, err = scheduler.New(k.ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(*profile),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			memoryBinder: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return binder{k}, nil },
		}),
	)
	if err != nil {
		return fmt.Errorf("make kube-scheduler: %w", err)
	}
	k.known = factory.Core().V1().Pods().Informer().GetIndexer()
	failed := k.scheduler.FailureHandler
	k.scheduler.FailureHandler = func(
		ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time,
	) {
		failed(ctx, f, pod, status, nominating, start)
		k.failed(pod.Pod, nominating)
	}
	nodes, classes := s.GenerateNodes(), s.GenerateClasses()
	listed := factory.Core().V1().Nodes().Informer().GetIndexer() // binding a volume looks there
	for i := range nodes {
		node := kubeNode(&nodes[i])
		k.scheduler.Cache.AddNode(klog.Logger{}, node)
		if err := listed.Add(node); err != nil {
			return fmt.Errorf("index a node: %w", err)
		}
	}
	if k.claims != nil {
		if err := k.claims.addNodes(nodes); err != nil {
			return err
		}
	}
	replicaSets := factory.Apps().V1().ReplicaSets().Informer().GetIndexer()
	for i := range classes {
		k.templates = append(k.templates, kubePod(&classes[i]))
		k.classes[classes[i].Name] = i
		if classes[i].Constraint != scenarios.Owned {
			continue
		}
		if err := replicaSets.Add(kubeReplicaSet(&classes[i])); err != nil {
			return fmt.Errorf("index a ReplicaSet: %w", err)
		}
	}
	return nil
}

// kubeProfile is upstream's default profile with memoryBinder; for Batch, without default spread, which would rule out its batching.
func kubeProfile(c scenarios.Case) (*config.KubeSchedulerProfile, error) {
	configuration, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("upstream's default configuration: %w", err)
	}
	profile := &configuration.Profiles[0]
	profile.Plugins.Bind.Enabled = []config.Plugin{{Name: memoryBinder}}
	profile.Plugins.Bind.Disabled = []config.Plugin{{Name: "DefaultBinder"}}
	for _, p := range profile.PluginConfig {
		if args, ok := p.Args.(*config.PodTopologySpreadArgs); ok && c == scenarios.Batch {
			args.DefaultingType = config.ListDefaulting
		}
	}
	return profile, nil
}

// binder is the plugin in DefaultBinder's place. It says at once what the watch would: the pod is on its node.
type binder struct{ side *kubeSide }

func (binder) Name() string { return memoryBinder }

func (b binder) Bind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	k := b.side
	if err := k.scheduler.Cache.AddPod(klog.Logger{}, pod); err != nil {
		return fwk.AsStatus(err)
	}
	if k.gangs.members > 0 {
		k.attempted(pod)
		return nil
	}
	k.mu.Lock()
	if k.preempts {
		k.preemptor = pod
	} else {
		k.ring = append(k.ring, pod)
	}
	k.mu.Unlock()
	k.tokens <- struct{}{}
	return nil
}

// failed follows a failed attempt. A pod with a nominated node has another once its victims have left; any other is given up.
func (k *kubeSide) failed(pod *corev1.Pod, nominating *fwk.NominatingInfo) {
	if k.gangs.members > 0 {
		k.attempted(pod)
		return
	}
	if k.preempts && nominating != nil && nominating.NominatedNodeName != "" {
		return
	}
	if k.indexes() {
		k.scheduler.SchedulingQueue.Delete(klog.Logger{}, pod)
		_ = k.known.Delete(pod) // an indexer fails on what has no name only
	}
	k.mu.Lock()
	k.unplaced++
	k.mu.Unlock()
	k.tokens <- struct{}{}
}

// indexes: kube-scheduler looks for pods in their informer's index.
func (k *kubeSide) indexes() bool { return k.preempts || k.claims != nil }

// pod makes the next of a class.
func (k *kubeSide) pod(class int, priority int32) *corev1.Pod {
	pod := *k.templates[class]
	pod.UID = kubeUID(k.created)
	pod.Name = string(pod.UID)
	pod.Spec.Priority = &priority
	k.created++
	return &pod
}

// bound is what the handlers of the pod informer do with a pod that is on a node already.
func (k *kubeSide) bound(pod *corev1.Pod) error {
	if k.indexes() {
		if err := k.known.Add(pod); err != nil {
			return fmt.Errorf("index a pod: %w", err)
		}
	}
	return k.scheduler.Cache.AddPod(klog.Logger{}, pod)
}

// gone is what they do with one that was deleted.
func (k *kubeSide) gone(pod *corev1.Pod) error {
	if k.indexes() {
		if err := k.known.Delete(pod); err != nil {
			return fmt.Errorf("index a pod: %w", err)
		}
	}
	return k.scheduler.Cache.RemovePod(klog.Logger{}, pod)
}

// feed is hilbertSide.next up to the queue.
func (k *kubeSide) feed() (err error) {
	if k.gangs.members > 0 {
		return k.feedGang()
	}
	class, priority, claim := 0, int32(0), ""
	if k.preempts {
		k.mu.Lock()
		last := k.preemptor
		k.preemptor = nil
		k.mu.Unlock()
		if last != nil {
			if err := k.gone(last); err != nil {
				return err
			}
			k.left++
			pod := k.pod(k.classes[last.Labels[scenarios.LabelApp]], 0)
			pod.Spec.NodeName, pod.Status.StartTime = last.Spec.NodeName, startTime(epoch-int64(k.left))
			if err := k.bound(pod); err != nil {
				return err
			}
		}
		priority = scenarios.PreemptorPriority
	} else {
		k.mu.Lock()
		if len(k.ring) == 0 {
			k.mu.Unlock()
			return errors.New("no pod is left that could leave")
		}
		oldest := k.ring[0]
		k.ring = k.ring[1:]
		k.mu.Unlock()
		if err := k.gone(oldest); err != nil {
			return err
		}
		class = k.classes[oldest.Labels[scenarios.LabelApp]]
		if k.claims != nil {
			if claim, err = k.nextClaim(k.claims.usedBy(oldest)); err != nil {
				return err
			}
		}
	}
	pod := k.pod(class, priority)
	if k.claims != nil {
		k.claims.use(pod, claim)
	}
	if k.indexes() {
		if err := k.known.Add(pod); err != nil {
			return fmt.Errorf("index a pod: %w", err)
		}
	}
	k.scheduler.SchedulingQueue.Add(k.ctx, pod)
	return nil
}

// nextClaim is the claim of the pod that comes next: that of the one that has left, or a new one.
func (k *kubeSide) nextClaim(left string) (string, error) {
	if k.claims.keeps() {
		return left, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.claims.remove(left); err != nil {
		return "", err
	}
	made := claimOf(k.created + 1)
	return made, k.claims.add(made)
}

func (k *kubeSide) decide(ctx context.Context, least int, limit time.Duration) (tally, error) {
	var t tally
	k.mu.Lock()
	unplaced, victims := k.unplaced, k.victims
	k.mu.Unlock()
	end := time.Now().Add(limit)
	for t.decisions < least || time.Now().Before(end) {
		if err := k.await(ctx); err != nil {
			return t, err
		}
		if err := k.feed(); err != nil {
			return t, err
		}
		t.decisions++
	}
	// All are decided when every token is back.
	for range cap(k.tokens) {
		if err := k.await(ctx); err != nil {
			return t, err
		}
	}
	for range cap(k.tokens) {
		k.tokens <- struct{}{}
	}
	k.mu.Lock()
	t.unplaced, t.victims = k.unplaced-unplaced, k.victims-victims
	k.mu.Unlock()
	return t, nil
}

// await takes a token.
func (k *kubeSide) await(ctx context.Context) error {
	select {
	case <-k.tokens:
		return nil
	default:
	}
	stuck := time.NewTimer(kubeStuck)
	defer stuck.Stop()
	select {
	case <-k.tokens:
		return nil
	case <-stuck.C:
		return fmt.Errorf("kube-scheduler has decided nothing for %s", kubeStuck)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *kubeSide) pods() int {
	n, err := k.scheduler.Cache.PodCount()
	if err != nil {
		return -1
	}
	return n
}

func (k *kubeSide) stop() {
	k.cancel()
	<-k.ended
	k.abandon()
}

// abandon gives up a side whose loop does not run.
func (k *kubeSide) abandon() {
	k.cancel()
	if k.restore != nil {
		k.restore()
	}
}
