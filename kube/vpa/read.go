package vpa

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/control/vpa"
	"hilbert.dev/hilbert/kube/apiserver"
)

// Permissions are exactly what recommendations need to be allowed on the API server.
var Permissions = []apiserver.Permission{
	{Group: Group, Resource: Resource, Verbs: []string{"list"}},                                            // what is asked for
	{Group: Group, Resource: Resource + "/status", Verbs: []string{"patch"}},                               // what is recommended
	{Resource: "pods", Verbs: []string{"list"}},                                                            // those of a target
	{Group: "metrics.k8s.io", Resource: "pods", Verbs: []string{"list"}},                                   // what they use
	{Group: "custom.metrics.k8s.io", Resource: "pods/" + memoryPeak, Verbs: []string{"get"}},               // what lies between two samples
	{Group: "custom.metrics.k8s.io", Resource: "pods/" + containerPeak, Verbs: []string{"get"}},            //
	{Group: "custom.metrics.k8s.io", Resource: "pods/" + throttled, Verbs: []string{"get"}},                //
	{Resource: "replicationcontrollers", Verbs: []string{"get"}},                                           // the selector of a target
	{Group: "apps", Resource: "deployments", Verbs: []string{"get"}},                                       //
	{Group: "apps", Resource: "statefulsets", Verbs: []string{"get"}},                                      //
	{Group: "apps", Resource: "daemonsets", Verbs: []string{"get"}},                                        //
	{Group: "apps", Resource: "replicasets", Verbs: []string{"get"}},                                       //
	{Group: "batch", Resource: "jobs", Verbs: []string{"get"}},                                             //
	{Resource: "configmaps", Verbs: []string{"create", "list", "patch", "delete"}, InLeaseNamespace: true}, // checkpoints
}

// ChangePermissions are what the modes InPlace and Recreate need besides.
var ChangePermissions = []apiserver.Permission{
	{Group: v1alpha1.Group, Resource: v1alpha1.Reservations, Verbs: []string{"create", "list", "delete"}}, // room for what pods grow by
	{Resource: "pods/resize", Verbs: []string{"patch"}},
	{Resource: "pods/eviction", Verbs: []string{"create"}},
}

// readTimeout bounds one request.
const readTimeout = 30 * time.Second

// getter reads a path of the API server.
type getter interface {
	get(ctx context.Context, path string, query map[string]string) ([]byte, error)
}

// client is a getter.
type client struct{ api rest.Interface }

func (c client) get(ctx context.Context, path string, query map[string]string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r := c.api.Get().AbsPath(path).SetHeader("Accept", apiserver.ContentJSON)
	for key, value := range query {
		r = r.Param(key, value)
	}
	data, err := r.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", path, err)
	}
	return data, nil
}

// Reader reads what is decided from.
type Reader struct {
	api         getter
	core        corev1client.CoreV1Interface
	source      Source
	measured    measured
	recommender string
	changes     bool // pods may be changed, so that Reservations and lenders matter
	lending     func(time.Time) map[string]*spec.Colocation
	log         *slog.Logger
	targets     targets
	trouble     map[string]bool // what failed in the last round, so that it is said once

	autoscalers map[vpa.Key]*Autoscaler // of the last round
}

// NewReader reads VerticalPodAutoscalers that name this recommender.
func NewReader(c *apiserver.Connection, recommender string, changes bool, log *slog.Logger) (*Reader, error) {
	core, err := corev1client.NewForConfig(apiserver.ForPurpose(c, "recommendation", nil))
	if err != nil {
		return nil, fmt.Errorf("make a client for recommendations: %w", err)
	}
	api := client{core.RESTClient()}
	return &Reader{
		api: api, core: core, source: podMetrics{api}, measured: measured{api}, lending: nobodyKnows, recommender: recommender, changes: changes, log: log, targets: targets{api: api, known: make(map[string]*target)}, trouble: make(map[string]bool),
	}, nil
}

// LendingFrom has what agents say of lending told by somebody, of those nodes of which it is known. Before it is called, that is none.
func (r *Reader) LendingFrom(tell func(now time.Time) map[string]*spec.Colocation) {
	r.lending = tell
}

func nobodyKnows(time.Time) map[string]*spec.Colocation { return nil }

// View reads everything. false: nothing can be decided in this round, for the reason that was logged.
func (r *Reader) View(ctx context.Context, now time.Time) (v vpa.View, ok bool) {
	ctx = apiserver.Silence(ctx)
	list, err := r.list(ctx)
	absent := apierrors.IsNotFound(errors.Unwrap(err))
	r.say("definition", "the API server has no VerticalPodAutoscalers; nothing is recommended until their definition is there", absent, nil)
	r.say("list", "VerticalPodAutoscalers cannot be listed; nothing is recommended meanwhile", err != nil && !absent, err)
	if err != nil {
		return v, false
	}
	r.autoscalers = make(map[vpa.Key]*Autoscaler)
	byNamespace := make(map[string][]*Autoscaler)
	for i := range list {
		a := &list[i]
		if a.ours(r.recommender) {
			r.autoscalers[vpa.Key{Namespace: a.Namespace, Name: a.Name}] = a
			byNamespace[a.Namespace] = append(byNamespace[a.Namespace], a)
		}
	}
	between := len(byNamespace) > 0 && r.measured.served(ctx)
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		v.Objects = append(v.Objects, r.namespace(ctx, namespace, byNamespace[namespace], between, now)...)
	}
	if r.changes {
		v.Places, v.Reservations = r.places(ctx)
		v.Lenders, v.LendersKnown = r.lenders(ctx, now)
	}
	return v, ctx.Err() == nil
}

// say logs a trouble when it begins, and not again before it has ended.
func (r *Reader) say(what, message string, failing bool, err error) {
	if failing && !r.trouble[what] {
		r.log.Warn(message, "err", err)
	}
	if failing {
		r.trouble[what] = true
	} else {
		delete(r.trouble, what)
	}
}

func (r *Reader) list(ctx context.Context) ([]Autoscaler, error) {
	data, err := r.api.get(ctx, "/apis/"+Group+"/"+Version+"/"+Resource, map[string]string{"resourceVersion": "0"})
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read the list of VerticalPodAutoscalers: %w", err)
	}
	out := make([]Autoscaler, 0, len(list.Items))
	for _, item := range list.Items {
		var a Autoscaler
		if err := json.Unmarshal(item, &a); err != nil {
			r.log.Debug("a VerticalPodAutoscaler cannot be read and is left out", "err", err)
			continue
		}
		out = append(out, a)
	}
	return out, nil
}

// namespace reads the pods of a namespace, and gives them to the objects whose targets select them. between: what was measured between samples is asked for.
func (r *Reader) namespace(ctx context.Context, namespace string, list []*Autoscaler, between bool, now time.Time) []vpa.Object {
	pods, err := r.pods(ctx, namespace)
	r.say("pods of "+namespace, "the pods of a namespace cannot be listed; nothing is decided about them meanwhile", err != nil, err)
	podsKnown := err == nil
	used, err := r.source.Use(ctx, namespace)
	r.say("use of "+namespace, "what the pods of a namespace use is not known; recommendations stay as they are meanwhile", err != nil, err)
	var seen map[string]measuredPod
	if between {
		seen = r.measured.seen(ctx, namespace)
	}
	out := make([]vpa.Object, 0, len(list))
	for _, a := range list {
		o := a.object()
		selector, problem, err := r.targets.selector(ctx, a, now)
		switch {
		case err != nil:
			r.log.Debug("a target cannot be read", "verticalPodAutoscaler", o.String(), "err", err)
		case problem != "":
			o.Problem = problem
		case podsKnown:
			o.PodsKnown = true
			for i := range pods {
				if selector.Matches(labels.Set(pods[i].Labels)) {
					o.Pods = append(o.Pods, podOf(&pods[i], used, seen))
				}
			}
		}
		out = append(out, o)
	}
	return out
}

// pods are those of a namespace that run, out of the API server's cache.
func (r *Reader) pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := r.core.Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: "status.phase=Running"})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Spec.NodeName == "" || p.DeletionTimestamp != nil
	}), nil
}

// podOf is what the decision sees of a pod.
func podOf(p *corev1.Pod, used map[string]Use, seen map[string]measuredPod) vpa.Pod {
	out := vpa.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Created: p.CreationTimestamp.Time, PriorityClass: p.Spec.PriorityClassName,
		Fixed: fixed(p), Resize: resizeOf(p),
	}
	use := used[p.Name]
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		next := vpa.Container{Name: c.Name, Requests: amounts(c.Resources.Requests), Limits: amounts(c.Resources.Limits), Use: recommend.Sample{CPU: -1, Memory: -1}}
		for _, policy := range c.ResizePolicy {
			next.Restarts = next.Restarts || policy.ResourceName == corev1.ResourceMemory && policy.RestartPolicy == corev1.RestartContainer
		}
		if sample, known := use.Containers[c.Name]; known {
			next.Use, next.UseAt = sample, use.At
			seen[p.Name].add(&next, len(p.Spec.Containers))
		}
		for k := range p.Status.ContainerStatuses {
			if s := &p.Status.ContainerStatuses[k]; s.Name == c.Name {
				next.RanOut = ranOut(s)
			}
		}
		out.Containers = append(out.Containers, next)
	}
	return out
}

// ranOut is when a container was last killed for want of memory.
func ranOut(s *corev1.ContainerStatus) time.Time {
	for _, state := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if state != nil && state.Reason == "OOMKilled" {
			return state.FinishedAt.Time
		}
	}
	return time.Time{}
}

// fixed says why a pod is not resized; empty: it may be.
func fixed(p *corev1.Pod) string {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return "it is a static pod, which the kubelet does not resize"
	}
	if q, _ := spec.QoSOf(p.Labels, p.Annotations); q.Level != spec.QoSShared {
		return "it is of the level " + string(q.Level) + ": only shared_cores are resized"
	}
	if p.Spec.Resources != nil && len(p.Spec.Resources.Requests)+len(p.Spec.Resources.Limits) > 0 {
		return "it has resources at the level of the pod"
	}
	return ""
}

// resizeOf is how far the kubelet is with the pod's resources.
func resizeOf(p *corev1.Pod) recommend.Resize {
	for _, c := range p.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible:
			return recommend.ResizeInfeasible
		case c.Type == corev1.PodResizePending:
			return recommend.ResizeDeferred
		case c.Type == corev1.PodResizeInProgress:
			return recommend.ResizeInProgress
		}
	}
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		at := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == s.Name })
		if at >= 0 && s.AllocatedResources != nil && amounts(s.AllocatedResources) != amounts(p.Spec.Containers[at].Resources.Requests) {
			return recommend.ResizeInProgress // the kubelet has not looked yet
		}
	}
	return recommend.ResizeNone
}

// places are our Reservations; false: the API server has none, or they are not known. Whoever may write Reservations may give them our label, and any template: one that cannot be read keeps no
// other from being read.
func (r *Reader) places(ctx context.Context) (out []vpa.Place, known bool) {
	data, err := r.api.get(ctx, "/apis/"+v1alpha1.GroupVersion.String()+"/"+v1alpha1.Reservations, map[string]string{"labelSelector": spec.LabelGrowth})
	var list apiserver.WrittenList[v1alpha1.Reservation]
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	r.say("reservations", "Reservations cannot be listed: no pod grows meanwhile", err != nil, err)
	if err != nil {
		return nil, false
	}
	for i := range list.Items {
		switch w := &list.Items[i]; {
		case w.DeletionTimestamp != nil:
		case w.Object == nil:
			out = append(out, vpa.Place{Namespace: w.Namespace, Name: w.Name, State: vpa.PlaceGone, Reason: "it cannot be read"})
		default:
			out = append(out, placeOf(w.Object))
		}
	}
	return out, true
}

func placeOf(o *v1alpha1.Reservation) vpa.Place {
	p := vpa.Place{Namespace: o.Namespace, Name: o.Name, State: vpa.PlaceWaiting}
	for i := range o.Spec.Template.Spec.Containers {
		p.Amounts = amounts(o.Spec.Template.Spec.Containers[i].Resources.Requests)
	}
	if json.Unmarshal([]byte(o.Annotations[spec.AnnotationGrowthFrom]), &p.From) != nil {
		p.State, p.Reason = vpa.PlaceGone, "its annotation "+spec.AnnotationGrowthFrom+" cannot be read"
		return p
	}
	for _, c := range o.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			p.Reason = cmp.Or(c.Message, c.Reason)
		}
	}
	for _, place := range o.Status.Places {
		p.Node = place.Node
		if place.State == "Reserved" {
			p.State = vpa.PlaceReserved
			continue
		}
		p.State, p.Reason = vpa.PlaceGone, cmp.Or(place.Message, place.Reason, "it is "+place.State)
	}
	return p
}
