package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/config"
	"hilbert.dev/hilbert/kube/apiserver"
)

const (
	// watchBackoff bounds the pause before a watch that broke is made again.
	watchBackoff = time.Minute
	// ownWriteFor is how long an own write counts before the watch has told of it.
	ownWriteFor = 30 * time.Second
)

// Permissions are exactly what the controller role needs to be allowed on the API server.
var Permissions = []apiserver.Permission{
	{Resource: "nodes", Verbs: []string{"list", "watch"}},                                                      // their labels
	{Group: v1alpha1.Group, Resource: v1alpha1.CustomNodeResources, Verbs: []string{"list", "watch", "patch"}}, // patch: what a node is told
	{Group: v1alpha1.Group, Resource: v1alpha1.NodeConfigurations, Verbs: []string{"list", "watch"}},           // what people wrote
	{Group: v1alpha1.Group, Resource: v1alpha1.NodeConfigurations + "/status", Verbs: []string{"update"}},      // how far it has come
	{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"create", "get", "update", "watch"}, InLeaseNamespace: true},
}

// Watch follows what the controller decides from.
type Watch struct {
	log  *slog.Logger
	stop context.CancelFunc
	done sync.WaitGroup
	wake chan struct{}

	mu      sync.Mutex
	labels  map[string]map[string]string // of Nodes, by name
	nodes   map[string]*known            // CustomNodeResources
	objects map[string]*object
	listed  map[string]bool // resources that were listed
}

// known is a CustomNodeResource.
type known struct {
	node config.Node
	// lending is what its agent says of lending; nil: nothing.
	lending *spec.Colocation
	// own is what was written and not seen yet, until then.
	own   *spec.WantedConfiguration
	until time.Time
}

// object is a NodeConfiguration.
type object struct {
	config.Object
	uid, version string
	conditions   []metav1.Condition
	// own is the version of an own status write, until then: an older one that the watch delivers does not take its place.
	own   string
	until time.Time
}

// NewWatch begins to list and watch. It runs until Close; ctx lends its values only.
func NewWatch(ctx context.Context, c *apiserver.Connection, log *slog.Logger) (*Watch, error) {
	client, err := dynamic.NewForConfig(apiserver.ForPurpose(c, "controller-watch", nil))
	if err != nil {
		return nil, fmt.Errorf("make a client for the controller's watches: %w", err)
	}
	w := &Watch{
		log: log, wake: make(chan struct{}, 1), labels: make(map[string]map[string]string), nodes: make(map[string]*known), objects: make(map[string]*object),
		listed: make(map[string]bool),
	}
	ctx, w.stop = context.WithCancel(apiserver.Silence(context.WithoutCancel(ctx)))
	for _, f := range []struct {
		of     schema.GroupVersionResource
		add    func(*unstructured.Unstructured)
		remove func(string)
		names  func() []string
	}{
		{schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, w.addNode, func(n string) { delete(w.labels, n) }, func() []string { return slices.Collect(maps.Keys(w.labels)) }},
		{v1alpha1.GroupVersion.WithResource(v1alpha1.CustomNodeResources), w.addReport, func(n string) { delete(w.nodes, n) }, func() []string { return slices.Collect(maps.Keys(w.nodes)) }},
		{v1alpha1.GroupVersion.WithResource(v1alpha1.NodeConfigurations), w.addObject, func(n string) { delete(w.objects, n) }, func() []string { return slices.Collect(maps.Keys(w.objects)) }},
	} {
		health := &apiserver.Health{Log: log, What: "the API server (" + f.of.Resource + ")"}
		resource := client.Resource(f.of)
		source := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list, err := resource.List(ctx, o)
				health.Note(err)
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				i, err := resource.Watch(ctx, o)
				health.Note(err)
				return i, err
			},
		}
		pause := apiserver.Backoff(watchBackoff)
		sink := &sink{w: w, what: f.of.Resource, add: f.add, remove: f.remove, names: f.names}
		reflector := cache.NewReflectorWithOptions(source, &unstructured.Unstructured{}, sink, cache.ReflectorOptions{Name: f.of.Resource, Backoff: &pause, TypeDescription: f.of.Resource})
		w.done.Go(func() { reflector.RunWithContext(ctx) })
	}
	return w, nil
}

// Close ends the watch and waits for it.
func (w *Watch) Close() {
	w.stop()
	w.done.Wait()
}

// Changed receives when something may have changed.
func (w *Watch) Changed() <-chan struct{} { return w.wake }

func (w *Watch) changed() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Listed reports whether everything was listed once. Before that a decision would take what is not known for what is not there.
func (w *Watch) Listed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	const resources = 3
	return len(w.listed) == resources
}

// View is what is known now.
func (w *Watch) View(now time.Time) (v config.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, k := range w.nodes {
		n := k.node
		labels, there := w.labels[name]
		if !there {
			continue // the report of a Node that is gone goes too
		}
		n.Labels = labels
		if now.Before(k.until) {
			n.Wanted = k.own
		}
		v.Nodes = append(v.Nodes, n)
	}
	for _, o := range w.objects {
		v.Objects = append(v.Objects, o.Object)
	}
	return v
}

// lendingFor is how old a report may be of which counts what it says of lending. Agents that lend refresh it each 25 seconds.
const lendingFor = 2 * time.Minute

// Lending is what agents say of lending, by node, of those that have said so of late. It must not be changed.
func (w *Watch) Lending(now time.Time) map[string]*spec.Colocation {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[string]*spec.Colocation)
	for name, k := range w.nodes {
		if k.lending != nil && now.Sub(k.node.Report.ObservedAt) < lendingFor {
			out[name] = k.lending
		}
	}
	return out
}

func (w *Watch) addNode(u *unstructured.Unstructured) { w.labels[u.GetName()] = u.GetLabels() }

func (w *Watch) addReport(u *unstructured.Unstructured) {
	n := config.Node{Name: u.GetName()}
	var lending *spec.Colocation
	var r v1alpha1.CustomNodeResource
	if err := convert(u, &r); err != nil {
		w.log.Warn("a CustomNodeResource cannot be read; its node counts as one that says nothing", "node", n.Name, "err", err)
	} else {
		n.Wanted = r.Spec.Configuration
		n.Report = config.Report{ObservedAt: r.Status.ObservedAt.Time, Applied: r.Status.Configuration, Health: r.Status.Health}
		lending = r.Status.Colocation
		for i := range r.Status.Conditions {
			if c := &r.Status.Conditions[i]; c.Type == spec.ConditionAgentReady {
				n.Report.Ready = c.Status == metav1.ConditionTrue
			}
		}
	}
	k := w.nodes[n.Name]
	if k == nil {
		k = &known{}
		w.nodes[n.Name] = k
	}
	k.node, k.lending = n, lending
	if same(k.own, n.Wanted) {
		k.until = time.Time{}
	}
}

func same(a, b *spec.WantedConfiguration) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Revision == b.Revision && a.Hash == b.Hash
}

// convert decodes an object into a type.
func convert(u *unstructured.Unstructured, into any) error {
	text, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (w *Watch) addObject(u *unstructured.Unstructured) {
	o := &object{
		Object: config.Object{Name: u.GetName(), Created: u.GetCreationTimestamp().Time, Generation: u.GetGeneration()}, uid: string(u.GetUID()), version: u.GetResourceVersion(),
	}
	// Spec and status are read apart: a spec that cannot be read must not have what all nodes have forgotten.
	part := func(name string, into any) error {
		text, err := json.Marshal(u.Object[name])
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		return err
	}
	if err := part("spec", &o.Spec); err != nil {
		o.Unreadable = "spec: " + err.Error()
		o.Spec = spec.NodeConfiguration{}
	}
	var status v1alpha1.NodeConfigurationStatus
	if err := part("status", &status); err != nil {
		w.log.Warn("the status of a NodeConfiguration cannot be read; it is written anew", "name", o.Name, "err", err)
	}
	o.Status, o.conditions = status.NodeConfigurationStatus, status.Conditions
	if before := w.objects[o.Name]; before != nil && before.uid == o.uid && before.own != "" && time.Now().Before(before.until) {
		if o.version != before.own {
			// It is older than the own write, or newer and then the next attempt is a conflict that ends this.
			before.Spec, before.Generation, before.Unreadable = o.Spec, o.Generation, o.Unreadable
			return
		}
	}
	w.objects[o.Name] = o
}

// toldBefore reports whether a node was told anything that it still has.
func (w *Watch) toldBefore(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.nodes[node]
	return k != nil && (k.node.Wanted != nil || time.Now().Before(k.until) && k.own != nil)
}

// told notes that a node was told.
func (w *Watch) told(node string, wanted *spec.WantedConfiguration, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.nodes[node]; k != nil {
		k.own, k.until = wanted, now.Add(ownWriteFor)
	}
}

// sink is what a reflector fills.
type sink struct {
	w      *Watch
	what   string
	add    func(*unstructured.Unstructured)
	remove func(string)
	names  func() []string
}

func (s *sink) upsert(o any) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("%s: the watch delivered a %T", s.what, o)
	}
	s.w.mu.Lock()
	s.add(u)
	s.w.mu.Unlock()
	s.w.changed()
	return nil
}

// Add takes in an object that was created.
func (s *sink) Add(o any) error { return s.upsert(o) }

// Update takes in an object that was changed.
func (s *sink) Update(o any) error { return s.upsert(o) }

// Delete forgets an object.
func (s *sink) Delete(o any) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("%s: the watch delivered a %T", s.what, o)
	}
	s.w.mu.Lock()
	s.remove(u.GetName())
	s.w.mu.Unlock()
	s.w.changed()
	return nil
}

// Replace takes in a list.
func (s *sink) Replace(list []any, _ string) error {
	s.w.mu.Lock()
	there := make(map[string]bool, len(list))
	for _, o := range list {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			s.w.mu.Unlock()
			return fmt.Errorf("%s: the list has a %T", s.what, o)
		}
		there[u.GetName()] = true
		s.add(u)
	}
	for _, name := range s.names() {
		if !there[name] {
			s.remove(name)
		}
	}
	s.w.listed[s.what] = true
	s.w.mu.Unlock()
	s.w.changed()
	return nil
}

// Resync does nothing: there is nothing besides the objects.
func (s *sink) Resync() error { return nil }
