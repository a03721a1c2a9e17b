package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// AnnotationRunSeconds makes a pod succeed that many seconds (a decimal fraction is allowed) after it started to run. Without
// it, or with a value that is not a number of seconds, the pod runs until it is deleted.
const AnnotationRunSeconds = "lab.hilbert.dev/run-seconds"

// longestRun bounds a run: further away a time no longer fits a duration.
const longestRun = 10 * 365 * 24 * time.Hour

// boundPods lists and watches the pods that have a node.
func boundPods(client kubernetes.Interface) cache.ListerWatcher {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = bound
			return client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = bound
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
		},
	}, client)
}

// trim keeps of a cached pod what advance reads.
func (f *Fleet) trim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	slim := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, StartTime: pod.Status.StartTime},
	}
	if seconds, set := pod.Annotations[AnnotationRunSeconds]; set {
		slim.Annotations = map[string]string{AnnotationRunSeconds: seconds}
	}
	for _, c := range pod.Spec.Containers {
		kept := corev1.Container{Name: c.Name, Image: c.Image}
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
			kept.Lifecycle = c.Lifecycle
		}
		if f.resizes {
			kept.Resources = c.Resources
		}
		slim.Spec.Containers = append(slim.Spec.Containers, kept)
	}
	if f.resizes {
		for i := range pod.Status.ContainerStatuses {
			c := &pod.Status.ContainerStatuses[i]
			slim.Status.ContainerStatuses = append(slim.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.ImageID, AllocatedResources: c.AllocatedResources})
		}
	}
	return slim, nil
}

// advance takes a pod one step on its way and says after how long to look at it again (0: when it changes).
func (f *Fleet) advance(ctx context.Context, pod *corev1.Pod, now time.Time) (again time.Duration, err error) {
	if pod.DeletionTimestamp != nil {
		if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace == 0 {
			return 0, nil // removed already, but for finalizers that are others' business
		}
		if left := untilStopped(pod, now); left > 0 {
			return left, nil
		}
		if len(pod.Finalizers) > 0 && pod.Status.Phase == corev1.PodRunning { // it stays, and holds nothing any more
			if err := f.patchStatus(ctx, pod, succeededStatus(pod, metav1.NewTime(now), metav1.NewTime(now))); err != nil {
				return 0, err
			}
		}
		return 0, f.remove(ctx, pod)
	}
	switch pod.Status.Phase {
	case corev1.PodPending, "":
		if f.strict != nil {
			why, err := f.admit(ctx, pod)
			if err != nil {
				return 0, err
			}
			if why != nil {
				return 0, f.patchStatus(ctx, pod, refusedStatus(why, metav1.NewTime(now)))
			}
		}
		if err := f.patchStatus(ctx, pod, f.runningStatus(pod, metav1.NewTime(now))); err != nil {
			return 0, err
		}
		f.starts.set(pod, now)
		return 0, nil
	case corev1.PodRunning:
		if status, due := f.resized(pod); due {
			if err := f.patchStatus(ctx, pod, status); err != nil {
				return 0, err
			}
		}
		life, finite := runTime(pod, f.scale)
		if !finite {
			return 0, nil
		}
		started := f.starts.of(pod, now)
		if left := started.Add(life).Sub(now); left > 0 {
			return left, nil
		}
		return 0, f.patchStatus(ctx, pod, succeededStatus(pod, metav1.NewTime(started), metav1.NewTime(now)))
	default:
		f.starts.forget(pod.UID)
		return 0, nil
	}
}

// remove is what a kubelet does when the last container has stopped: delete without grace.
func (f *Fleet) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := f.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil {
		return fmt.Errorf("remove pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// starts remembers to the nanosecond when pods with an end started to run: the API keeps only whole seconds, which is coarse where
// TimeScale is large. It holds no more than the running pods that have an end.
type starts struct {
	mu   sync.Mutex
	when map[types.UID]time.Time
}

func (s *starts) set(pod *corev1.Pod, now time.Time) {
	if _, ends := pod.Annotations[AnnotationRunSeconds]; !ends {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.when == nil {
		s.when = make(map[types.UID]time.Time)
	}
	s.when[pod.UID] = now
}

// of falls back to the pod's status: another fleet may have started it.
func (s *starts) of(pod *corev1.Pod, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if started, known := s.when[pod.UID]; known {
		return started
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return now
}

func (s *starts) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.when, uid)
}

// patchStatus merges into the status of exactly this pod: the UID in the patch makes a successor of the same name a conflict.
func (f *Fleet) patchStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   status,
	})
	if err != nil {
		return fmt.Errorf("encode the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	_, err = f.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("set the status of pod %s/%s to %s: %w", pod.Namespace, pod.Name, status.Phase, err)
	}
	return nil
}

func (f *Fleet) runningStatus(pod *corev1.Pod, now metav1.Time) corev1.PodStatus {
	ip := podIP(pod.UID)
	host := f.nodes[pod.Spec.NodeName].ip
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now,
		PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: host, HostIPs: []corev1.HostIP{{IP: host}},
		Conditions: []corev1.PodCondition{
			podCondition(corev1.PodInitialized, corev1.ConditionTrue, "", now),
			podCondition(corev1.ContainersReady, corev1.ConditionTrue, "", now),
			podCondition(corev1.PodReady, corev1.ConditionTrue, "", now),
		},
	}
	if f.strict != nil && !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }) {
		status.Conditions = append(status.Conditions, podCondition(corev1.PodScheduled, corev1.ConditionTrue, "", now)) // no scheduler has bound it
	}
	started := true
	for _, c := range pod.Spec.Containers {
		next := corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}
		if f.resizes {
			next.AllocatedResources, next.Resources = c.Resources.Requests, &c.Resources
		}
		status.ContainerStatuses = append(status.ContainerStatuses, next)
	}
	return status
}

// resized is the status of a pod whose containers have been given what it asks for by now; false: they had it.
func (f *Fleet) resized(pod *corev1.Pod) (status corev1.PodStatus, due bool) {
	if !f.resizes {
		return status, false
	}
	for i := range pod.Status.ContainerStatuses {
		has := &pod.Status.ContainerStatuses[i]
		at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == has.Name })
		if at < 0 || equality.Semantic.DeepEqual(has.AllocatedResources, pod.Spec.Containers[at].Resources.Requests) {
			continue
		}
		asks := &pod.Spec.Containers[at].Resources
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: has.Name, Image: has.Image, ImageID: has.ImageID, Ready: true, Started: new(true), AllocatedResources: asks.Requests, Resources: asks,
		})
	}
	status.Phase = pod.Status.Phase
	return status, len(status.ContainerStatuses) > 0
}

func succeededStatus(pod *corev1.Pod, started, now metav1.Time) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: corev1.PodSucceeded,
		Conditions: []corev1.PodCondition{
			podCondition(corev1.ContainersReady, corev1.ConditionFalse, "PodCompleted", now),
			podCondition(corev1.PodReady, corev1.ConditionFalse, "PodCompleted", now),
		},
	}
	off := false
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Started: &off,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: started, FinishedAt: now}},
		})
	}
	return status
}

func podCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string, now metav1.Time) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: now}
}

// runTime is how long the pod is to run at the fleet's pace; false if it has no end.
func runTime(pod *corev1.Pod, scale float64) (time.Duration, bool) {
	text, set := pod.Annotations[AnnotationRunSeconds]
	if !set {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 {
		return 0, false
	}
	life := seconds / scale
	if life >= longestRun.Seconds() {
		return longestRun, true
	}
	return time.Duration(life * float64(time.Second)), true
}

// podIP derives an address in 10.128.0.0/9 from the pod's UID, so that it is the same after a restart of the fleet.
func podIP(uid types.UID) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // a hash never fails
	n := h.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", 128|(n>>16)&0x7f, (n>>8)&0xff, n&0xff)
}
