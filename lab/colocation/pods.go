package colocation

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/hollow"
)

// podWatch is what the API server says of the pods.
type podWatch struct {
	last atomic.Int64 // when it last said something

	mu   sync.Mutex
	pods map[types.UID]*seenPod
}

// seenPod is a pod as it was last seen.
type seenPod struct {
	namespace, name, node, gpus string
	offline                     bool
	kind                        string
	ended                       bool // it has done its work, or failed
	gone                        bool
	told                        bool // its end was taken
}

// followPods watches all pods until ctx ends. It returns when the first list is in.
func followPods(ctx context.Context, client kubernetes.Interface, tasks *sync.WaitGroup) (*podWatch, error) {
	w := &podWatch{pods: make(map[types.UID]*seenPod)}
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { w.see(object, false) }, UpdateFunc: func(_, object any) { w.see(object, false) },
		DeleteFunc: func(object any) { w.see(object, true) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods: %w", err)
	}
	tasks.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return w, nil
}

func (w *podWatch) lastEvent() time.Time { return time.Unix(0, w.last.Load()) }

func (w *podWatch) see(object any, gone bool) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last.Store(time.Now().UnixNano())
	p := w.pods[pod.UID]
	if p == nil {
		p = &seenPod{namespace: pod.Namespace, name: pod.Name, offline: pod.Labels[spec.LabelQoS] == string(spec.QoSReclaimed), kind: pod.Labels[labelKind]}
		w.pods[pod.UID] = p
	}
	if pod.Spec.NodeName != "" {
		p.node = pod.Spec.NodeName
	}
	p.gpus = pod.Annotations[spec.AnnotationGPUs]
	p.ended = p.ended || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	p.gone = p.gone || gone
}

// each shows all pods that were ever seen.
func (w *podWatch) each(look func(types.UID, *seenPod)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, p := range w.pods {
		look(uid, p)
	}
}

// serviceName is the n-th pod of services.
func serviceName(n int) string { return fmt.Sprintf("service-%d-%04d", n%apps, n/apps) }

// createServices makes the online pods, which fill the nodes as far as requests go.
func (b *bed) createServices(ctx context.Context) error {
	for n := range b.Nodes * servicesPerNode {
		list := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(serviceCPUs*milli), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(serviceGiB*gibi, resource.BinarySI),
		}
		pod := podOf(serviceName(n), list)
		pod.Labels = map[string]string{spec.LabelQoS: string(spec.QoSShared), labelApp: fmt.Sprintf("service-%d", n%apps)}
		pod.Spec.NodeSelector = map[string]string{labelLends: "true"}
		if err := b.create(ctx, metav1.NamespaceDefault, pod); err != nil {
			return err
		}
	}
	slice := podOf("inference", corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		hollow.ResourceGPUMilli: *resource.NewQuantity(sliceMilli, resource.DecimalSI),
	})
	return b.create(ctx, metav1.NamespaceDefault, slice)
}

// sliceMilli is the part of a GPU that a service has.
const sliceMilli = 300

func podOf(name string, list corev1.ResourceList) *corev1.Pod {
	grace, noToken := int64(1), false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: spec.DefaultSchedulerName, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &noToken,
			Containers: []corev1.Container{{Name: "main", Image: "example.com/morning:1", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
}

func (b *bed) create(ctx context.Context, namespace string, pod *corev1.Pod) error {
	b.watch.last.Store(time.Now().UnixNano())
	if _, err := b.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s/%s: %w", namespace, pod.Name, err)
	}
	return nil
}

// jobName is the n-th job of a queue. Its pods have a number more: of the try.
func jobName(queue string, n int) string { return fmt.Sprintf("%s-%05d", queue, n) }

// jobOf is the job that a pod is a try of.
func jobOf(pod string) string { return pod[:strings.LastIndexByte(pod, '-')] }

// try is a pod of a job: the first one, or one in the place of another that was evicted.
type try struct {
	queue, job string
	kind, n    int
	gang       string // empty: none
}

// createTry makes a pod of a job.
func (b *bed) createTry(ctx context.Context, t try) error {
	k := kind(t.kind)
	pod := podOf(t.job+"-"+strconv.Itoa(t.n), corev1.ResourceList{
		spec.ResourceReclaimedCPU:    *resource.NewQuantity(int64(k.cpus)*milli, resource.DecimalSI),
		spec.ResourceReclaimedMemory: *resource.NewQuantity(int64(k.gib)*gibi, resource.BinarySI),
	})
	pod.Labels = map[string]string{spec.LabelQoS: string(spec.QoSReclaimed), labelKind: strconv.Itoa(t.kind)}
	if t.gang != "" {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &t.gang}
	}
	return b.create(ctx, t.queue, pod)
}

// The gang: so many pods of a kind, in one rack or not at all.
const (
	gangName    = "train"
	gangQueue   = "training"
	gangMembers = 4
)

func (b *bed) createGang(ctx context.Context) error {
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: gangName},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: gangMembers}},
			SchedulingConstraints: &schedulingv1beta1.PodGroupSchedulingConstraints{
				Topology: []schedulingv1beta1.TopologyConstraint{{Key: hollow.LabelRack}},
			},
		},
	}
	if _, err := b.client.SchedulingV1beta1().PodGroups(gangQueue).Create(ctx, group, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create PodGroup %s: %w", gangName, err)
	}
	for i := range gangMembers {
		if err := b.createTry(ctx, try{gangQueue, gangName + "-" + strconv.Itoa(i), len(jobKinds), 0, gangName}); err != nil {
			return err
		}
	}
	return nil
}

// finish says of the pods whose jobs have come to an end that they have.
func (b *bed) finish(ctx context.Context) error {
	for _, name := range b.names {
		done, killed := b.agents.Agent(name).Ended()
		for phase, list := range map[corev1.PodPhase][]types.UID{corev1.PodSucceeded: done, corev1.PodFailed: killed} {
			for _, uid := range list {
				if err := b.end(ctx, uid, phase); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bed) end(ctx context.Context, uid types.UID, phase corev1.PodPhase) error {
	var namespace, name string
	b.watch.mu.Lock()
	if p := b.watch.pods[uid]; p != nil && !p.gone {
		namespace, name = p.namespace, p.name
	}
	b.watch.mu.Unlock()
	if name == "" {
		return nil // it was evicted in the same second
	}
	b.watch.last.Store(time.Now().UnixNano())
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":%q}}`, uid, phase)
	_, err := b.client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !goneMeanwhile(err) {
		return fmt.Errorf("end pod %s/%s: %w", namespace, name, err)
	}
	return nil
}

func createObject(ctx context.Context, to dynamic.ResourceInterface, fields map[string]any) error {
	_, err := to.Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})
	return err
}
