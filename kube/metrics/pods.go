package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/control/metrics"
	"hilbert.dev/hilbert/kube/apiserver"
)

// watchBackoff bounds the pause before a watch that broke is made again.
const watchBackoff = 30 * time.Second

// Permissions are exactly what the role metrics needs to be allowed on the API server, beside the Role extension-apiserver-authentication-reader in kube-system.
var Permissions = []apiserver.Permission{
	{Resource: "pods", Verbs: []string{"list", "watch"}},                                         // where they run, and what they belong to
	{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"}},        // whose token a report has
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"}}, // whether a user may ask
	{Group: "apiregistration.k8s.io", Resource: "apiservices", Verbs: []string{"get"}},           // whom the groups lead to
}

// Sink is told which pods there are.
type Sink interface {
	SetPod(p *metrics.Pod)
	DeletePod(uid string)
	// KeepPods forgets all but these.
	KeepPods(uids map[string]bool)
}

// Pods follows pods.
type Pods struct {
	sink   Sink
	listed atomic.Bool
}

// WatchPods follows all pods until ctx ends. Only what a Sink wants of them is kept.
func WatchPods(ctx context.Context, c *apiserver.Connection, sink Sink, log *slog.Logger) (*Pods, error) {
	client, err := coreclient.NewForConfig(apiserver.ForPurpose(c, "metrics-pods", nil))
	if err != nil {
		return nil, fmt.Errorf("make a client for the watch of pods: %w", err)
	}
	pods := client.Pods(metav1.NamespaceAll)
	health := &apiserver.Health{Log: log, What: "the API server (pods)"}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := pods.List(ctx, o)
			health.Note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := pods.Watch(ctx, o)
			health.Note(err)
			return w, err
		},
	}
	p := &Pods{sink: sink}
	pause := apiserver.Backoff(watchBackoff)
	go cache.NewReflectorWithOptions(source, &corev1.Pod{}, p, cache.ReflectorOptions{Name: "pods", Backoff: &pause}).RunWithContext(apiserver.Silence(ctx))
	return p, nil
}

// Listed reports whether all pods were listed once.
func (p *Pods) Listed() bool { return p.listed.Load() }

// Add takes in a pod that was created.
func (p *Pods) Add(o any) error {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("pods: the watch delivered a %T", o)
	}
	p.sink.SetPod(podOf(pod))
	return nil
}

// Update takes in a pod that was changed.
func (p *Pods) Update(o any) error { return p.Add(o) }

// Delete forgets a pod.
func (p *Pods) Delete(o any) error {
	if pod, ok := o.(*corev1.Pod); ok {
		p.sink.DeletePod(string(pod.UID))
	}
	return nil
}

// Replace takes in a list.
func (p *Pods) Replace(list []any, _ string) error {
	there := make(map[string]bool, len(list))
	for _, o := range list {
		if err := p.Add(o); err != nil {
			return err
		}
		if pod, ok := o.(*corev1.Pod); ok {
			there[string(pod.UID)] = true
		}
	}
	p.sink.KeepPods(there)
	p.listed.Store(true)
	return nil
}

// Resync does nothing: there is nothing besides the pods.
func (p *Pods) Resync() error { return nil }

// podOf is what is kept of a pod. The texts are cloned: each would keep the whole pod in memory.
func podOf(p *corev1.Pod) *metrics.Pod {
	out := &metrics.Pod{
		UID: strings.Clone(string(p.UID)), Namespace: strings.Clone(p.Namespace), Name: strings.Clone(p.Name), Node: strings.Clone(p.Spec.NodeName), Labels: maps.Clone(p.Labels),
		Workload: workloadOf(p),
	}
	if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && p.Status.StartTime != nil {
		out.Running = p.Status.StartTime.Time
	}
	return out
}

// workloadOf is what a pod belongs to. A Deployment's pods are known by the label that its controller puts into the names of ReplicaSets: so ReplicaSets need not be followed.
func workloadOf(p *corev1.Pod) metrics.Workload {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return metrics.Workload{}
	}
	kind, name := owner.Kind, owner.Name
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; kind == "ReplicaSet" && hash != "" {
		if deployment, ok := strings.CutSuffix(name, "-"+hash); ok {
			kind, name = "Deployment", deployment
		}
	}
	return metrics.Workload{Namespace: strings.Clone(p.Namespace), Kind: strings.Clone(kind), Name: strings.Clone(name)}
}
