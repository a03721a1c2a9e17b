package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// byNode is the index of pods by the node that they are on.
const byNode = "node"

// strict is what Options.Strict adds: it refuses pods that do not fit, as a kubelet's admission does, and copies extended resources from a node's capacity to its
// allocatable.
//
// Pods are admitted one at a time, in the order in which the watch tells of them. What was admitted before counts; what was bound and is not admitted yet does not.
type strict struct {
	nodes cache.SharedIndexInformer
	queue workqueue.TypedRateLimitingInterface[string] // names of nodes whose resources changed

	mu       sync.Mutex
	admitted map[types.UID]bool // pods of the fleet that were admitted and are not gone
}

// startStrict adds the node watch and the index of pods. It is called before the pod watch starts.
func (f *Fleet) startStrict(ctx, running context.Context) error {
	s := &strict{
		admitted: make(map[types.UID]bool),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryBase, retryMax)),
	}
	f.strict = s
	err := f.pods.AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}})
	if err != nil {
		return fmt.Errorf("set up the pod watch: %w", err)
	}
	s.nodes = informers.NewSharedInformerFactory(f.client, 0).Core().V1().Nodes().Informer()
	enqueue := func(object any) {
		if node, ok := object.(*corev1.Node); ok {
			if _, ours := f.nodes[node.Name]; ours {
				s.queue.Add(node.Name)
			}
		}
	}
	handler, err := s.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) },
	})
	if err != nil {
		return fmt.Errorf("set up the node watch: %w", err)
	}
	f.tasks.Go(func() { s.nodes.RunWithContext(running) })
	ctx, cancel := context.WithTimeoutCause(ctx, syncTimeout, fmt.Errorf("nothing after %s", syncTimeout))
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return fmt.Errorf("list the nodes for the hollow nodes: %w", context.Cause(ctx))
	}
	f.tasks.Go(func() {
		for f.copyOnce(running) {
		}
	})
	return nil
}

// copyOnce takes one node from the queue and makes its allocatable follow its capacity; false when the queue is closed.
func (f *Fleet) copyOnce(ctx context.Context) bool {
	name, closed := f.strict.queue.Get()
	if closed {
		return false
	}
	defer f.strict.queue.Done(name)
	object, exists, err := f.strict.nodes.GetStore().GetByKey(name)
	if err != nil || !exists {
		f.strict.queue.Forget(name)
		return true
	}
	switch err := f.copyCapacity(ctx, object.(*corev1.Node)); {
	case err == nil, apierrors.IsNotFound(err), ctx.Err() != nil:
		f.strict.queue.Forget(name)
	default:
		f.strict.queue.AddRateLimited(name)
	}
	return true
}

// copyCapacity does what a kubelet does about extended resources: a node's allocatable has those of its capacity, and no others.
func (f *Fleet) copyCapacity(ctx context.Context, node *corev1.Node) error {
	wrong := make(map[corev1.ResourceName]any)
	for name, have := range node.Status.Capacity {
		if got, set := node.Status.Allocatable[name]; v1helper.IsExtendedResourceName(name) && (!set || got.Cmp(have) != 0) {
			wrong[name] = have
		}
	}
	for name := range node.Status.Allocatable {
		if _, set := node.Status.Capacity[name]; v1helper.IsExtendedResourceName(name) && !set {
			wrong[name] = nil
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"allocatable": wrong}})
	if err != nil {
		return fmt.Errorf("encode the resources of node %q: %w", node.Name, err)
	}
	_, err = f.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// refusal is why a kubelet does not run a pod.
type refusal struct{ reason, message string }

// admit decides whether a pod may run on its node beside those that do.
func (f *Fleet) admit(ctx context.Context, pod *corev1.Pod) (*refusal, error) {
	s := f.strict
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admitted[pod.UID] {
		return nil, nil
	}
	object, known, err := s.nodes.GetStore().GetByKey(pod.Spec.NodeName)
	if err != nil || !known {
		return nil, fmt.Errorf("admit pod %s/%s: node %q is not in the watch yet", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	others, err := f.others(pod)
	if err != nil {
		return nil, err
	}
	why := judge(pod, object.(*corev1.Node), others)
	if why != nil { // the watch of nodes may be behind that of pods, so ask again before a pod is lost
		node, err := f.client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("admit pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if why = judge(pod, node, others); why != nil {
			return why, nil
		}
	}
	s.admitted[pod.UID] = true
	return nil, nil
}

// others are the pods on a pod's node that were admitted and hold their resources still.
func (f *Fleet) others(pod *corev1.Pod) ([]*corev1.Pod, error) {
	objects, err := f.pods.GetIndexer().ByIndex(byNode, pod.Spec.NodeName)
	if err != nil {
		return nil, fmt.Errorf("pods of node %q: %w", pod.Spec.NodeName, err)
	}
	var list []*corev1.Pod
	for _, object := range objects {
		other := object.(*corev1.Pod)
		switch {
		case other.UID == pod.UID, other.Status.Phase == corev1.PodSucceeded, other.Status.Phase == corev1.PodFailed:
		case f.strict.admitted[other.UID], other.Status.Phase == corev1.PodRunning:
			list = append(list, other)
		}
	}
	return list, nil
}

// judge asks upstream's check that the kubelet uses. As there, extended resources that the node does not know are somebody else's business.
func judge(pod *corev1.Pod, node *corev1.Node, others []*corev1.Pod) *refusal {
	pod = pod.DeepCopy()
	for i := range pod.Spec.Containers {
		for name := range pod.Spec.Containers[i].Resources.Requests {
			if _, known := node.Status.Allocatable[name]; v1helper.IsExtendedResourceName(name) && !known {
				delete(pod.Spec.Containers[i].Resources.Requests, name)
			}
		}
	}
	info := framework.NewNodeInfo()
	for _, other := range others {
		info.AddPod(other)
	}
	info.SetNode(node)
	results := scheduler.AdmissionCheck(pod, info, false)
	if len(results) == 0 {
		return nil
	}
	if lack := results[0].InsufficientResource; lack != nil {
		asked, free := resource.NewQuantity(lack.Requested, resource.DecimalSI), resource.NewQuantity(lack.Capacity-lack.Used, resource.DecimalSI)
		return &refusal{"OutOf" + string(lack.ResourceName), fmt.Sprintf("Node didn't have enough resource: %s, requested: %s, free: %s", lack.ResourceName, asked, free)}
	}
	return &refusal{results[0].Name, "Predicate " + results[0].Name + " failed: " + strings.TrimSpace(results[0].Reason)}
}

// forgetAdmitted takes a pod that is gone, or that the fleet has removed, off its node.
func (f *Fleet) forgetAdmitted(uid types.UID) {
	if f.strict == nil {
		return
	}
	f.strict.mu.Lock()
	defer f.strict.mu.Unlock()
	delete(f.strict.admitted, uid)
}

func refusedStatus(why *refusal, now metav1.Time) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, Reason: why.reason, Message: why.message, StartTime: &now}
}

// untilStopped is how much longer the containers of a pod that is being deleted run: as long as the longest preStop sleep, and never longer than the grace
// period. Containers of hollow nodes have nothing else to do when they are told to stop.
func untilStopped(pod *corev1.Pod, now time.Time) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil || pod.Status.Phase != corev1.PodRunning {
		return 0
	}
	var sleep int64
	for i := range pod.Spec.Containers {
		if l := pod.Spec.Containers[i].Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
			sleep = max(sleep, l.PreStop.Sleep.Seconds)
		}
	}
	grace := *pod.DeletionGracePeriodSeconds
	asked := pod.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)
	return asked.Add(time.Duration(min(sleep, grace)) * time.Second).Sub(now)
}
