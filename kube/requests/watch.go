package requests

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/apiserver"
)

// watchBackoff bounds the pause before a watch that broke is made again.
const watchBackoff = 30 * time.Second

// written is a ResourceRequest as somebody wrote it: its template may be anything.
type written = apiserver.Written[v1alpha1.ResourceRequest]

// asked is a ResourceRequest, as it is written and as it is decided from.
type asked struct {
	object *v1alpha1.ResourceRequest // never changed
	request.Request
}

// Watch is what is known of ResourceRequests and their pods.
type Watch struct {
	log  *slog.Logger
	wake chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	requests map[request.Key]*asked
	byUID    map[string]request.Key
	pods     map[ownerID]map[string]*request.Pod // by the request that controls them and the name
	owners   map[podKey]ownerID                  // where each pod is filed that is there: who may change a pod may give it to another owner
	waiting  map[string]int                      // pods without a node, by namespace
	changed  map[request.Key]bool
	gone     []string // UIDs of requests that went
	listed   bool     // pods are listed: then everything is
}

// ownerID is a ResourceRequest as its pods name it. Who may make pods in another namespace may write any UID: only pods of its own namespace are the request's.
type ownerID struct{ namespace, uid string }

type podKey struct{ namespace, name string }

// NewWatch begins to follow. It tries for ever where the API server does not answer, or has no ResourceRequests.
func NewWatch(ctx context.Context, c *apiserver.Connection, log *slog.Logger) (*Watch, error) {
	own := apiserver.ForPurpose(c, "requests-watch", nil)
	shared, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for ResourceRequests: %w", err)
	}
	requests, err := apiserver.NewWrittenClient[v1alpha1.ResourceRequest](own, shared, v1alpha1.GroupVersion.WithKind(kind), v1alpha1.ResourceRequests)
	if err != nil {
		return nil, fmt.Errorf("make a client for ResourceRequests: %w", err)
	}
	core, err := corev1client.NewForConfigAndClient(own, shared)
	if err != nil {
		return nil, fmt.Errorf("make a client for the pods of ResourceRequests: %w", err)
	}
	ctx, stop := context.WithCancel(apiserver.Silence(ctx))
	w := emptyWatch(log)
	w.stop = stop
	listed := make(chan struct{})
	follow := func(name string, source cache.ListerWatcher, example any, s *sink) {
		pause := apiserver.Backoff(watchBackoff)
		reflector := cache.NewReflectorWithOptions(source, example, s, cache.ReflectorOptions{Name: name, Backoff: &pause})
		w.done.Go(func() { reflector.RunWithContext(ctx) })
	}
	follow(v1alpha1.ResourceRequests, listing(requests.List, requests.Watch, "", &apiserver.Health{Log: log, What: "the API server (resourcerequests)"}), &written{},
		&sink{w: w, what: "ResourceRequests", add: w.addRequest, remove: w.removeRequest, replace: w.replaceRequests, first: func() { close(listed) }})
	w.done.Go(func() {
		select {
		case <-listed:
		case <-ctx.Done():
			return
		}
		// A pod that a status names was made before the status was written: a list that is younger than the status has it, or it is gone.
		pods := core.Pods(metav1.NamespaceAll)
		follow("pods of resourcerequests", listing(pods.List, pods.Watch, spec.LabelResourceRequest, &apiserver.Health{Log: log, What: "the API server (pods of resourcerequests)"}), &corev1.Pod{},
			&sink{w: w, what: "pods", add: w.addPod, remove: w.removePod, replace: w.replacePods, first: func() { w.listed = true }})
	})
	return w, nil
}

// emptyWatch knows nothing.
func emptyWatch(log *slog.Logger) *Watch {
	return &Watch{
		log: log, wake: make(chan struct{}, 1), requests: make(map[request.Key]*asked), byUID: make(map[string]request.Key), pods: make(map[ownerID]map[string]*request.Pod),
		owners: make(map[podKey]ownerID), waiting: make(map[string]int), changed: make(map[request.Key]bool),
	}
}

// listing lists and watches a resource, consistently: what the API server has in its cache may be older than what a leader before saw.
func listing[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error), follow func(context.Context, metav1.ListOptions) (watch.Interface, error), selector string, h *apiserver.Health,
) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			o.LabelSelector = selector
			objects, err := list(ctx, o)
			h.Note(err)
			return objects, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			w, err := follow(ctx, o)
			h.Note(err)
			return w, err
		},
	}
}

// Close ends the watch and waits for it.
func (w *Watch) Close() {
	w.stop()
	w.done.Wait()
}

// Changed receives when something may have changed.
func (w *Watch) Changed() <-chan struct{} { return w.wake }

// Listed reports whether everything was listed once.
func (w *Watch) Listed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listed
}

// object is a ResourceRequest as it was seen last; nil: it is gone, or another has its name.
func (w *Watch) object(key request.Key, uid string) *v1alpha1.ResourceRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.requests[key]; a != nil && a.UID == uid {
		return a.object
	}
	return nil
}

// Counts are how many requests there are, and how many pods wait for a node.
func (w *Watch) Counts() (requests, waiting int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.waiting {
		waiting += n
	}
	return len(w.requests), waiting
}

// decide has decided what has changed, and what is in due. The view holds while the call lasts.
func (w *Watch) decide(due []request.Key, forget func(uid string), decide func(*request.View)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range w.gone {
		forget(uid)
	}
	w.gone = nil
	for _, key := range due {
		w.changed[key] = true
	}
	v := request.View{Waiting: w.waiting}
	for key := range w.changed {
		if a := w.requests[key]; a != nil {
			r := a.Request
			r.Pods = w.pods[ownerID{r.Namespace, r.UID}]
			v.Requests = append(v.Requests, r)
		}
	}
	clear(w.changed)
	decide(&v)
	for i := range v.Requests { // what went was shown
		r := &v.Requests[i]
		w.dropGone(ownerID{r.Namespace, r.UID})
	}
}

// dropGone forgets what went of the pods of a request.
func (w *Watch) dropGone(of ownerID) {
	maps.DeleteFunc(w.pods[of], func(_ string, p *request.Pod) bool { return p.Gone })
	if len(w.pods[of]) == 0 {
		delete(w.pods, of)
	}
}

func (w *Watch) addRequest(o runtime.Object) {
	text, ok := o.(*written)
	if !ok {
		return
	}
	a := askedOf(text)
	if before := w.requests[a.Key]; before != nil && before.UID != a.UID {
		w.forget(before)
	}
	w.requests[a.Key], w.byUID[a.UID] = a, a.Key
	w.changed[a.Key] = true
}

func (w *Watch) removeRequest(o runtime.Object) {
	if text, ok := o.(*written); ok {
		if a := w.requests[request.Key{Namespace: text.Namespace, Name: text.Name}]; a != nil && a.UID == string(text.UID) {
			w.forget(a)
		}
	}
}

// forget forgets a request. Nobody decides about it any more, so what went of its pods is not shown to anybody; those that are there go when their watch says so.
func (w *Watch) forget(a *asked) {
	delete(w.requests, a.Key)
	delete(w.byUID, a.UID)
	delete(w.changed, a.Key)
	if w.listed { // before that nothing was decided
		w.gone = append(w.gone, a.UID)
	}
	w.dropGone(ownerID{a.Namespace, a.UID})
}

func (w *Watch) replaceRequests(list []runtime.Object) {
	there := make(map[string]bool, len(list))
	for _, o := range list {
		if text, ok := o.(*written); ok {
			there[string(text.UID)] = true
		}
		w.addRequest(o)
	}
	for _, a := range w.requests {
		if !there[a.UID] {
			w.forget(a)
		}
	}
}

// owner is the ResourceRequest that controls a pod; without a UID: none does.
func owner(pod *corev1.Pod) ownerID {
	c := metav1.GetControllerOfNoCopy(pod)
	if c == nil || c.Kind != kind || c.APIVersion != v1alpha1.GroupVersion.String() {
		return ownerID{}
	}
	return ownerID{pod.Namespace, string(c.UID)}
}

// kind is the kind of the objects that we answer.
const kind = "ResourceRequest"

func waits(p *request.Pod) bool { return p.Node == "" && p.Phase == request.Pending && !p.Gone }

func (w *Watch) put(of ownerID, name string, p *request.Pod) {
	if before := w.pods[of][name]; before != nil && waits(before) {
		if w.waiting[of.namespace]--; w.waiting[of.namespace] == 0 {
			delete(w.waiting, of.namespace)
		}
	}
	switch {
	case p != nil:
		if w.pods[of] == nil {
			w.pods[of] = make(map[string]*request.Pod)
		}
		w.pods[of][name] = p
		if waits(p) {
			w.waiting[of.namespace]++
		}
	default:
		if delete(w.pods[of], name); len(w.pods[of]) == 0 {
			delete(w.pods, of)
		}
	}
	if key, known := w.known(of); known {
		w.changed[key] = true
	}
}

func (w *Watch) known(of ownerID) (request.Key, bool) {
	key, known := w.byUID[of.uid]
	return key, known && key.Namespace == of.namespace
}

// file notes under which owner a pod is kept, and takes it away from one that it had before. Without a UID the pod is nobody's.
func (w *Watch) file(pod *corev1.Pod, of ownerID) {
	key := podKey{pod.Namespace, pod.Name}
	if before, filed := w.owners[key]; filed && before != of {
		w.put(before, pod.Name, nil)
	}
	if of.uid == "" {
		delete(w.owners, key)
	} else {
		w.owners[key] = of
	}
}

func (w *Watch) addPod(o runtime.Object) {
	if pod, ok := o.(*corev1.Pod); ok {
		of := owner(pod)
		if w.file(pod, of); of.uid != "" {
			w.put(of, pod.Name, podOf(pod))
		}
	}
}

func (w *Watch) removePod(o runtime.Object) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	of := owner(pod)
	w.file(pod, of)
	delete(w.owners, podKey{pod.Namespace, pod.Name})
	if of.uid == "" {
		return
	}
	p := podOf(pod)
	p.Gone = true
	if _, known := w.known(of); p.Node == "" || !known {
		p = nil
	}
	w.put(of, pod.Name, p)
}

func (w *Watch) replacePods(list []runtime.Object) {
	w.pods, w.owners, w.waiting = make(map[ownerID]map[string]*request.Pod), make(map[podKey]ownerID), make(map[string]int)
	for _, o := range list {
		w.addPod(o)
	}
	for key := range w.requests {
		w.changed[key] = true
	}
}

// podOf is what is decided from.
func podOf(pod *corev1.Pod) *request.Pod {
	p := &request.Pod{
		Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, Version: pod.ResourceVersion, Created: pod.CreationTimestamp.Time,
		Level: request.LevelOf(pod.Annotations[spec.AnnotationAskLocality]), Deleting: pod.DeletionTimestamp != nil, Reason: pod.Status.Reason, Message: pod.Status.Message,
	}
	switch pod.Status.Phase {
	case corev1.PodRunning:
		p.Phase = request.Running
	case corev1.PodSucceeded:
		p.Phase = request.Succeeded
	case corev1.PodFailed:
		p.Phase = request.Failed
		explain(p, pod)
	default:
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			p.Disrupted = true
			if p.Reason == "" {
				p.Reason, p.Message = c.Reason, c.Message
			}
		}
	}
	return p
}

// explain says why a pod failed, by the first of its containers that did.
func explain(p *request.Pod, pod *corev1.Pod) {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		t := s.State.Terminated
		if p.Reason != "" || t == nil || t.ExitCode == 0 {
			continue
		}
		p.Reason, p.Message = t.Reason, "container "+s.Name+" ended with exit code "+strconv.Itoa(int(t.ExitCode))
	}
	if p.Reason == "" {
		p.Reason = "Failed"
	}
}

// sink is what a reflector fills.
type sink struct {
	w           *Watch
	what        string
	add, remove func(runtime.Object)
	replace     func([]runtime.Object)
	first       func() // after the first list; nil afterwards
}

func (s *sink) do(o any, f func(runtime.Object)) error {
	object, ok := o.(runtime.Object)
	if !ok {
		return fmt.Errorf("%s: the watch delivered a %T", s.what, o)
	}
	s.w.mu.Lock()
	f(object)
	s.w.mu.Unlock()
	s.w.nudge()
	return nil
}

func (w *Watch) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Add takes in an object that was created.
func (s *sink) Add(o any) error { return s.do(o, s.add) }

// Update takes in an object that was changed.
func (s *sink) Update(o any) error { return s.do(o, s.add) }

// Delete forgets an object.
func (s *sink) Delete(o any) error { return s.do(o, s.remove) }

// Replace takes in a list.
func (s *sink) Replace(list []any, _ string) error {
	objects := make([]runtime.Object, 0, len(list))
	for _, o := range list {
		object, ok := o.(runtime.Object)
		if !ok {
			return fmt.Errorf("%s: the list has a %T", s.what, o)
		}
		objects = append(objects, object)
	}
	s.w.mu.Lock()
	s.replace(objects)
	if s.first != nil {
		s.first()
		s.first = nil
	}
	s.w.mu.Unlock()
	s.w.nudge()
	return nil
}

// Resync does nothing: there is nothing besides the objects.
func (s *sink) Resync() error { return nil }
