package requests

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/standin"
)

const (
	resource = v1alpha1.ResourceRequests + "." + v1alpha1.Group
	asksText = `{apiVersion: scheduling.hilbert.dev/v1alpha1, kind: ResourceRequest, metadata: {namespace: ns, name: words, uid: u1, generation: 1, creationTimestamp: "2026-11-26T00:00:00Z"},
  spec: {template: {metadata: {labels: {app: words}}, spec: {containers: [{name: worker, image: i}]}},
    asks: [{name: map, count: 2, priorityClassName: gold, resources: [{name: worker, requests: {cpu: "2"}}],
      locality: {nodes: {names: [a, b], relaxAfter: 1h}, racks: {values: [r1], relaxAfter: 1h}, excludedNodes: [b, c]}}]}}`
)

// rig is a Controller on a stand-in where pods can be made.
type rig struct {
	t      *testing.T
	server *standin.Server
	fence  *lease.Fence
	end    func()

	mu     sync.Mutex
	made   []*corev1.Pod
	refuse string // why pods are refused
	writes []string
	failed []error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := emptyRig(t)
	r.server.Offer("podgroups.scheduling.k8s.io", "v1beta1")
	return r
}

// emptyRig has no PodGroups.
func emptyRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, server: standin.New(t), fence: lease.NewFence(time.Hour, time.Minute)}
	r.server.Offer(resource, v1alpha1.Version)
	r.server.Intercept(r.write)
	r.fence.Renewed(time.Now())
	return r
}

// lead begins to answer, as a new leader.
func (r *rig) lead() {
	params := request.Defaults()
	params.Retry, params.StatusEvery = 10*time.Millisecond, 10*time.Millisecond
	c := New(r.server.Connection(), r.fence, Options{SchedulerName: "hilbert", PodsPerSecond: 1000, Params: params, Timeout: time.Minute, Wrote: r.wrote}, slog.New(slog.DiscardHandler))
	ctx, cancel := contextOf(r.t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	r.end = func() {
		cancel()
		<-done
	}
	r.t.Cleanup(func() { r.end() })
}

func (r *rig) wrote(_ string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed = append(r.failed, err)
	}
}

// write makes pods, which the stand-in does not, and notes everything that is written.
func (r *rig) write(w http.ResponseWriter, q *http.Request) bool {
	if q.Method == http.MethodGet {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, q.Method+" "+q.URL.Path)
	if q.Method != http.MethodPost || !strings.HasSuffix(q.URL.Path, "/pods") {
		return false
	}
	pod := &corev1.Pod{}
	code, answer := http.StatusCreated, any(pod)
	switch err := json.NewDecoder(q.Body).Decode(pod); {
	case err != nil:
		r.t.Error(err)
	case r.refuse != "":
		code, answer = http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: r.refuse}
	case r.server.Pod(pod.Namespace, pod.Name) != nil:
		code, answer = http.StatusConflict, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists, Message: "exists"}
	default:
		r.made = append(r.made, pod)
		pod.UID = types.UID(fmt.Sprintf("p%d", len(r.made)))
		pod.CreationTimestamp = metav1.Now()
		r.server.SetPod(pod)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		r.t.Error(err)
	}
	return true
}

func (r *rig) refused(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = why
}

func (r *rig) pods() []*corev1.Pod {
	pods := r.server.Pods()
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

func (r *rig) status() v1alpha1.ResourceRequestStatus { return r.statusOf("ns") }

func (r *rig) statusOf(namespace string) (s v1alpha1.ResourceRequestStatus) {
	r.t.Helper()
	u := r.server.Stored(resource, namespace, "words")
	if u == nil {
		return s
	}
	text, err := json.Marshal(u.Object["status"])
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within a minute; pods %d, status %+v", what, len(r.server.Pods()), r.status())
		}
	}
}

// run lets the pods that there are run on a node, or end in a phase.
func (r *rig) run(phase corev1.PodPhase, pods ...*corev1.Pod) {
	for _, p := range pods {
		p = p.DeepCopy()
		p.Spec.NodeName, p.Status.Phase = "a", phase
		r.server.SetPod(p)
	}
}

func (r *rig) change(how func(*unstructured.Unstructured) *unstructured.Unstructured) {
	r.server.Set(how(r.server.Stored(resource, "ns", "words")))
}

func (r *rig) reason() string {
	s := r.status()
	if c := conditionOf(&s, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

func (r *rig) message() string {
	s := r.status()
	if c := conditionOf(&s, v1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// A request is answered with pods of its template, whose ends stand in the status; a new leader makes none twice and forgets no failure; what is released goes.
func TestPodsAreMade(t *testing.T) {
	r := newRig(t)
	r.server.Set(standin.FromYAML(t, asksText))
	r.lead()
	r.until("two pods", func() bool { return len(r.server.Pods()) == 2 })
	pods := r.pods()
	r.run(corev1.PodRunning, pods...)
	r.until("they run", func() bool { return r.status().Running == 2 && r.reason() == request.ReasonAllocated })
	r.run(corev1.PodFailed, pods[0])
	r.until("the failed one is deleted", func() bool { return r.server.Pod("ns", pods[0].Name).DeletionTimestamp != nil })
	r.server.DeletePod("ns", pods[0].Name) // the stand-in's kubelets do nothing
	r.until("the failure is counted", func() bool { s := r.status(); return len(s.Allocations) == 2 && s.Allocations[0].Failures == 1 })
	r.end()
	r.lead()
	r.until("it is made anew", func() bool { p := r.pods(); return len(p) == 2 && p[0].UID != pods[0].UID })
	r.run(corev1.PodRunning, r.pods()[0])
	r.until("both run", func() bool { return r.status().Running == 2 })
	if s := r.status(); s.Allocations[0].Failures != 1 || s.Allocations[1].Failures != 0 || s.Allocations[1].UID != string(pods[1].UID) {
		t.Errorf("the status is %+v", s.Allocations)
	}
	r.change(func(u *unstructured.Unstructured) *unstructured.Unstructured {
		asks, _, _ := unstructured.NestedSlice(u.Object, "spec", "asks")
		ask, _ := asks[0].(map[string]any)
		ask["release"], ask["count"] = []any{int64(0)}, int64(3)
		return standin.With(u, asks, "spec", "asks")
	})
	r.until("one is deleted, another one is made", func() bool {
		p := r.pods()
		return len(p) == 3 && p[0].DeletionTimestamp != nil && strings.HasSuffix(p[2].Name, "-2")
	})
	r.server.DeletePod("ns", pods[0].Name)
	r.until("it was released", func() bool { s := r.status(); return s.Released == 1 && s.Allocations[0].State == request.SlotReleased })
	r.server.Delete(r.server.Stored(resource, "ns", "words"))
	r.until("it is forgotten", func() bool { return len(r.pods()) == 2 }) // the garbage collector's, which the stand-in has not
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.made) != 4 {
		t.Errorf("%d pods were made, want 4:\n%s\n%v", len(r.made), strings.Join(r.writes, "\n"), r.failed)
	}
}

// A finalizer of the template keeps a pod that ended well until its master has seen it, so that no new leader makes it anew, though it was deleted while nobody led.
func TestFinalizerKeepsAnEnd(t *testing.T) {
	r := newRig(t)
	const keeps = "example.org/counted"
	r.server.Set(standin.With(standin.FromYAML(t, asksText), []any{keeps}, "spec", "template", "metadata", "finalizers"))
	r.lead()
	r.until("two pods", func() bool { return len(r.server.Pods()) == 2 })
	pods := r.pods()
	if !slices.Contains(pods[0].Finalizers, keeps) {
		t.Fatalf("the pod has the finalizers %v", pods[0].Finalizers)
	}
	r.end()
	ended := pods[0].DeepCopy()
	ended.Spec.NodeName, ended.Status.Phase, ended.DeletionTimestamp = "a", corev1.PodSucceeded, new(metav1.Now())
	r.server.SetPod(ended)
	r.lead()
	r.until("it has succeeded", func() bool { return r.status().Succeeded == 1 })
	r.server.DeletePod("ns", ended.Name) // the master has taken its finalizer off
	r.run(corev1.PodRunning, pods[1])
	r.until("the other one runs", func() bool { s := r.status(); return s.Succeeded == 1 && s.Running == 1 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.made) != 2 {
		t.Errorf("%d pods were made, want 2", len(r.made))
	}
}

// A pod that waits is made anew for the racks; one that has a node by then is not.
func TestLocalityRelaxes(t *testing.T) {
	r := newRig(t)
	r.server.Set(standin.FromYAML(t, asksText))
	r.lead()
	r.until("two pods", func() bool { return len(r.server.Pods()) == 2 })
	first := r.pods()
	r.run(corev1.PodRunning, first[0])
	r.until("one runs", func() bool { return r.status().Running == 1 })
	r.change(func(u *unstructured.Unstructured) *unstructured.Unstructured {
		asks, _, _ := unstructured.NestedSlice(u.Object, "spec", "asks")
		ask, _ := asks[0].(map[string]any)
		if err := unstructured.SetNestedField(ask, "1ms", "locality", "nodes", "relaxAfter"); err != nil {
			t.Fatal(err)
		}
		return standin.With(u, asks, "spec", "asks")
	})
	r.until("the other one was made anew", func() bool { p := r.pods(); return len(p) == 2 && p[1].UID != first[1].UID })
	p := r.pods()
	if p[0].UID != first[0].UID || p[1].Annotations[spec.AnnotationAskLocality] != "Racks" || first[1].Annotations[spec.AnnotationAskLocality] != "Nodes" {
		t.Errorf("there are %s and %s, bound to %v", p[0].UID, p[1].UID, p[1].Annotations)
	}
	r.until("the status says so", func() bool { s := r.status(); return s.Waiting == 1 && s.Running == 1 && s.Failed == 0 })
}

// What the API server refuses is said in the status and an Event, and tried again.
func TestRefusal(t *testing.T) {
	r := newRig(t)
	r.refused("exceeded quota: pods=0")
	r.server.Set(standin.FromYAML(t, asksText))
	r.lead()
	r.until("it is said", func() bool { return r.reason() == request.ReasonRefused })
	s := r.status()
	if c := conditionOf(&s, v1alpha1.ConditionReady); !strings.Contains(c.Message, "exceeded quota") || c.Status != metav1.ConditionFalse {
		t.Errorf("the condition is %+v", c)
	}
	r.until("an Event", func() bool { return len(r.server.Events()) == 1 })
	r.refused("")
	r.until("two pods", func() bool { return len(r.server.Pods()) == 2 && r.reason() == request.ReasonWaiting })
}

// A gang has a PodGroup before it has pods, and all of them name it.
func TestGang(t *testing.T) {
	r := newRig(t)
	r.server.Set(standin.With(standin.FromYAML(t, asksText), true, "spec", "gang"))
	r.lead()
	r.until("two pods", func() bool { return len(r.server.Pods()) == 2 })
	name := request.GroupOf("words", "u1")
	group := r.server.Stored("podgroups.scheduling.k8s.io", "ns", name)
	if got := text(t, group.Object["spec"]); got != `{"schedulingPolicy":{"gang":{"minCount":2}}}` {
		t.Errorf("the gang is %s", got)
	}
	r.allOf(name)
}

// allOf holds that all pods name a group in both ways.
func (r *rig) allOf(name string) {
	for _, p := range r.pods() {
		if g := p.Spec.SchedulingGroup; g == nil || g.PodGroupName == nil || *g.PodGroupName != name || p.Labels[spec.LabelPodGroup] != name {
			r.t.Errorf("pod %s is of the group %+v, and by its labels %v", p.Name, g, p.Labels)
		}
	}
}

// Where the API server has only the PodGroups of scheduling.x-k8s.io, the gang is one of these.
func TestGangOfSigs(t *testing.T) {
	r := emptyRig(t)
	r.server.Offer("podgroups.scheduling.x-k8s.io", "v1alpha1")
	r.server.Set(standin.With(standin.FromYAML(t, asksText), true, "spec", "gang"))
	r.lead()
	r.until("two pods", func() bool { return len(r.server.Pods()) == 2 })
	name := request.GroupOf("words", "u1")
	group := r.server.Stored("podgroups.scheduling.x-k8s.io", "ns", name)
	if got := text(t, group.Object["spec"]); got != `{"minMember":2}` {
		t.Errorf("the gang is %s", got)
	}
	r.allOf(name)
}

// Where there are no PodGroups, a gang has no pods, and its condition says why.
func TestGangWithoutPodGroups(t *testing.T) {
	r := emptyRig(t)
	r.server.Set(standin.With(standin.FromYAML(t, asksText), true, "spec", "gang"))
	r.lead()
	r.until("the reason", func() bool { return r.reason() == request.ReasonRefused })
	if pods := r.server.Pods(); len(pods) > 0 {
		t.Errorf("there are %d pods", len(pods))
	}
	if got := r.message(); !strings.Contains(got, "scheduling.k8s.io/v1beta1 or scheduling.x-k8s.io/v1alpha1") {
		t.Errorf("the condition says: %s", got)
	}
}

// A leader that lost its Lease writes nothing.
func TestFence(t *testing.T) {
	r := newRig(t)
	r.fence.Shut()
	r.server.Set(standin.FromYAML(t, asksText))
	r.lead()
	r.until("it has tried to", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.failed, func(err error) bool { return errors.Is(err, lease.ErrFenced) })
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.writes) > 0 {
		t.Errorf("it wrote %v", r.writes)
	}
}

// A template is anything: one that is none is said of its request, whose status keeps what it had, and all others are answered.
func TestUnreadable(t *testing.T) {
	for what, template := range map[string]any{"a list that is a text": map[string]any{"spec": map[string]any{"containers": "none"}}, "a number that is a text": map[string]any{"spec": map[string]any{"priority": "high"}}} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			bad := standin.With(standin.FromYAML(t, asksText), template, "spec", "template")
			bad = standin.With(bad, []any{map[string]any{"ask": "map", "index": int64(1), "state": request.SlotReleased}}, "status", "allocations")
			bad.SetNamespace("other")
			bad.SetUID("u2")
			r.server.Set(bad)
			r.server.Set(standin.FromYAML(t, asksText))
			r.lead()
			r.until("two pods", func() bool { return len(r.server.Pods()) == 2 })
			var s v1alpha1.ResourceRequestStatus
			r.until("it is said", func() bool {
				s = r.statusOf("other")
				c := conditionOf(&s, v1alpha1.ConditionReady)
				return c != nil && c.Reason == request.ReasonUnreadable && strings.Contains(c.Message, "cannot unmarshal")
			})
			if len(s.Allocations) != 1 || s.Allocations[0].State != request.SlotReleased || s.Released != 1 {
				t.Errorf("the status has forgotten what was released: %+v", s)
			}
			r.server.Set(standin.With(r.server.Stored(resource, "other", "words"), map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "worker", "image": "i"}}}}, "spec", "template"))
			r.until("what was not released is made once it can be read", func() bool { return len(r.server.Pods()) == 3 })
		})
	}
}

// Whoever may make pods in another namespace may name a request as their controller. They are not its pods.
func TestPodsOfOtherNamespaces(t *testing.T) {
	r := newRig(t)
	object := object(t)
	forged, err := pod(object, &request.Create{Name: request.NameOf(&request.Request{Key: request.Key{Namespace: "ns", Name: "words"}, UID: "u1"}, "map", 0), Ask: "map", Level: request.Nodes}, "hilbert")
	if err != nil {
		t.Fatal(err)
	}
	forged.Namespace, forged.UID = "evil", "p0"
	r.run(corev1.PodSucceeded, forged)
	r.server.Set(standin.FromYAML(t, asksText))
	r.lead()
	r.until("two pods of its own", func() bool { return r.server.Pod("ns", forged.Name) != nil && len(r.server.Pods()) == 3 })
	r.until("all wait", func() bool { return r.status().Waiting == 2 })
	if s := r.status(); s.Succeeded > 0 {
		t.Errorf("a pod of another namespace is counted: %+v", s)
	}
}
