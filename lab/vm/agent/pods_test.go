package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/topology"
)

// trait makes a pod what a test wants.
type trait func(*corev1.Pod)

// pod is one that the scheduler places. Without traits it is BestEffort and sleeps.
func (r *rig) pod(name string, traits ...trait) *corev1.Pod {
	p := r.BusyPod(name, corev1.ResourceRequirements{}, "sleep")
	p.Spec.NodeName, p.Spec.SchedulerName = "", spec.DefaultSchedulerName
	p.Labels, p.Annotations = map[string]string{}, map[string]string{}
	for _, t := range traits {
		t(p)
	}
	return p
}

// asks is a Guaranteed pod's: requests and limits are the same.
func asks(cpu, memory string) trait {
	return func(p *corev1.Pod) {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	}
}

// requests is a Burstable pod's.
func requests(cpu string) trait {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

func does(args ...string) trait {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Args = args }
}

func level(l spec.QoSLevel) trait {
	return func(p *corev1.Pod) { p.Labels[spec.LabelQoS] = string(l) }
}

func annotated(key, value string) trait {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

// onNode leaves the scheduler out.
func onNode(name string) trait {
	return func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.SchedulerName = name, "" }
}

// dedicated is a pod with cores of its own in NUMA nodes.
func (r *rig) dedicated(name, cpu, memory, numa string, args ...string) *corev1.Pod {
	return r.pod(name, level(spec.QoSDedicated), annotated(spec.AnnotationNUMA, numa), asks(cpu, memory), does(args...))
}

// run runs pods, all at once, and returns them as they then are.
func (r *rig) run(pods ...*corev1.Pod) []*corev1.Pod {
	r.t.Helper()
	out, errs := make([]*corev1.Pod, len(pods)), make([]error, len(pods))
	var group sync.WaitGroup
	for i, p := range pods {
		group.Go(func() { out[i], errs[i] = r.RunPod(r.t.Context(), p) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// remove deletes pods, all at once, and returns when they are gone.
func (r *rig) remove(pods ...*corev1.Pod) {
	r.t.Helper()
	errs := make([]error, len(pods))
	var group sync.WaitGroup
	for i, p := range pods {
		group.Go(func() { errs[i] = r.DeletePod(r.t.Context(), p) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		r.t.Fatal(err)
	}
}

// leaves reports whether a pod has gone, or is on its way.
func (r *rig) leaves(p *corev1.Pod) bool {
	r.t.Helper()
	now, err := r.Client.CoreV1().Pods(p.Namespace).Get(r.t.Context(), p.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	return err != nil || now.UID != p.UID || now.DeletionTimestamp != nil
}

// create asks for a pod and does not wait.
func (r *rig) create(p *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	p, err := r.Client.CoreV1().Pods(p.Namespace).Create(r.t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// promise is what a pod's Binding promised.
func (r *rig) promise(p *corev1.Pod) topology.NUMAGrant {
	r.t.Helper()
	g, err := topology.ParseNUMAGrant(p.Annotations[spec.AnnotationNUMANodes])
	if err != nil || g.IsZero() {
		r.t.Fatalf("pod %s: promise %q: %v", p.Name, p.Annotations[spec.AnnotationNUMANodes], err)
	}
	return g
}

// bind binds a pod as the scheduler's account, with a promise of the test's own.
func (r *rig) bind(p *corev1.Pod, promise string) error {
	return r.bindWith(p, map[string]string{spec.AnnotationNUMANodes: promise})
}

// bindWith is bind with any promise.
func (r *rig) bindWith(p *corev1.Pod, promise map[string]string) error {
	client, err := r.as("system:serviceaccount:hilbert-system:hilbertd")
	if err != nil {
		return err
	}
	return client.CoreV1().Pods(p.Namespace).Bind(r.t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Annotations: promise},
		Target:     corev1.ObjectReference{Kind: "Node", Name: r.Name},
	}, metav1.CreateOptions{})
}

// removeStatic takes away all manifests; the kubelet then ends those pods.
func (r *rig) removeStatic(ctx context.Context) error {
	_, err := r.Guest.Shell(ctx, "rm -f "+join.StaticPods+"/*")
	return err
}

// waits says what keeps a pod's container from being.
func waits(p *corev1.Pod) string {
	if p.Status.Phase != corev1.PodPending {
		return fmt.Sprintf("%s %s", p.Status.Phase, p.Status.Reason)
	}
	var out []string
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			out = append(out, c.Reason+": "+c.Message)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			out = append(out, w.Reason+": "+w.Message)
		}
	}
	return strings.Join(out, "; ")
}

// container is the one container of the test bed's pods.
const container = "main"

func containerID(p *corev1.Pod) string {
	id, err := join.ContainerID(p, container)
	if err != nil {
		return ""
	}
	return id
}
