package controller

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/config"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/standin"
)

const (
	reportText = `{apiVersion: node.hilbert.dev/v1alpha1, kind: CustomNodeResource, metadata: {name: n1}, spec: {configuration: {name: web, revision: r, hash: h}},
  status: {observedAt: "2026-11-26T10:00:00Z", conditions: [{type: AgentReady, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-11-26T10:00:00Z"}],
    configuration: {name: web, hash: h, inForce: h, since: "2026-11-26T10:00:00Z"}, health: {runDelay: 7, evictions: 1, windowSeconds: 120}}}`
	objectText = `{apiVersion: node.hilbert.dev/v1alpha1, kind: NodeConfiguration, metadata: {name: web, uid: u, generation: 3, creationTimestamp: "2026-11-21T00:00:00Z"},
  spec: {priority: 5, parameters: {lending: {targetUtilization: 60}}}, status: {nodes: {targeted: 2, told: 1, applied: 1}}}`
	writeTimeout = time.Minute
)

// rig is a controller's watch and writer on a stand-in that is asked for writes in vain: they are noted and answered.
type rig struct {
	t      *testing.T
	server *standin.Server
	watch  *Watch
	writer *Writer
	fence  *lease.Fence

	mu     sync.Mutex
	writes []string // method, path, content type and body
	code   int      // of answers
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, server: standin.New(t), fence: lease.NewFence(time.Hour, writeTimeout), code: http.StatusOK}
	for _, resource := range []string{v1alpha1.CustomNodeResources, v1alpha1.NodeConfigurations} {
		r.server.Offer(resource+"."+v1alpha1.Group, v1alpha1.Version)
	}
	r.server.Intercept(r.write)
	r.server.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"pool": "web"}}})
	r.server.Set(standin.FromYAML(t, reportText))
	r.server.Set(standin.FromYAML(t, objectText))
	r.fence.Renewed(time.Now())
	var err error
	if r.watch, err = NewWatch(t.Context(), r.server.Connection(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.watch.Close)
	if r.writer, err = NewWriter(r.server.Connection(), r.fence, r.watch, writeTimeout); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.writer.Close)
	r.eventually("everything is listed", r.watch.Listed)
	return r
}

// write notes a write.
func (r *rig) write(w http.ResponseWriter, request *http.Request) bool {
	if request.Method == http.MethodGet {
		return false
	}
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, fmt.Sprintf("%s %s %s %s", request.Method, strings.TrimPrefix(request.URL.Path, "/apis/node.hilbert.dev/v1alpha1/"), request.Header.Get("Content-Type"), body))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.code)
	if r.code == http.StatusOK {
		fmt.Fprint(w, `{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "777"}}`)
	} else {
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "message": "the object has been modified", "code": %d}`, r.code)
	}
	return true
}

// wrote returns the writes since it was last called.
func (r *rig) wrote() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.writes
	r.writes = nil
	return out
}

func (r *rig) answers(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code = code
}

func (r *rig) eventually(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within a minute", what)
		}
	}
}

// only is the one node and the one object of the view.
func (r *rig) only() (n config.Node, o config.Object) {
	v := r.watch.View(time.Now())
	if len(v.Nodes) == 1 {
		n = v.Nodes[0]
	}
	if len(v.Objects) == 1 {
		o = v.Objects[0]
	}
	return n, o
}

// What the API server has of nodes, reports and objects is in the view; what is not known is not made up.
func TestView(t *testing.T) {
	r := newRig(t)
	n, o := r.only()
	if n.Name != "n1" || n.Labels["pool"] != "web" || n.Wanted == nil || n.Wanted.Hash != "h" || !n.Report.Ready || n.Report.Applied.InForce != "h" || n.Report.Health.RunDelay != 7 ||
		!n.Report.ObservedAt.Equal(time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("the node is %+v", n)
	}
	if o.Name != "web" || o.Generation != 3 || o.Spec.Priority != 5 || o.Spec.Parameters.Hash() != spec.WrittenParameters(`{"lending":{"targetUtilization":60}}`).Hash() || o.Status.Nodes.Told != 1 || o.Unreadable != "" {
		t.Errorf("the object is %+v", o)
	}
	// One that cannot be read keeps its status: what nodes have must not be forgotten for it.
	r.server.Set(standin.With(standin.FromYAML(t, objectText), "high", "spec", "priority"))
	r.eventually("it cannot be read", func() bool { _, o := r.only(); return o.Unreadable != "" })
	if _, o := r.only(); o.Spec.Priority != 0 || o.Spec.Parameters != nil || o.Status.Nodes.Told != 1 || !strings.HasPrefix(o.Unreadable, "spec: ") {
		t.Errorf("the object is %+v", o)
	}
	r.server.Set(standin.With(standin.FromYAML(t, reportText), "soon", "status", "observedAt"))
	r.eventually("the node says nothing", func() bool { n, _ := r.only(); return n.Name == "n1" && !n.Report.Ready && n.Report.Applied == nil })
	// A report without a Node is nobody's; a list after a break forgets what has gone meanwhile.
	r.server.DeleteNode("n1")
	r.eventually("the node is gone", func() bool { return len(r.watch.View(time.Now()).Nodes) == 0 })
	r.server.Delete(standin.FromYAML(t, objectText))
	r.server.Expire()
	r.server.BreakWatches()
	r.eventually("the object is gone", func() bool { return len(r.watch.View(time.Now()).Objects) == 0 })
}

// A node is told by one request that changes nothing else, and counts as told until the watch says so, for a while.
func TestTell(t *testing.T) {
	r := newRig(t)
	wanted := &spec.WantedConfiguration{Name: "web", Revision: "r2", Hash: "h2", Parameters: spec.WrittenParameters(`{"cpu":{"margin":2}}`)}
	const value = `{"name":"web","revision":"r2","hash":"h2","parameters":{"cpu":{"margin":2}}}`
	tell := func(w *spec.WantedConfiguration, want string) {
		t.Helper()
		if err := r.writer.Tell(t.Context(), &config.Tell{Node: "n1", Wanted: w}); err != nil {
			t.Fatal(err)
		}
		if got := r.wrote(); !slices.Equal(got, []string{"PATCH customnoderesources/n1 " + want}) {
			t.Errorf("wrote %q, want %q", got, want)
		}
	}
	tell(wanted, `application/json-patch+json [{"op":"add","path":"/spec/configuration","value":`+value+`}]`)
	if n, _ := r.only(); n.Wanted == nil || n.Wanted.Hash != "h2" {
		t.Errorf("what was told does not count: %+v", n.Wanted)
	}
	if v := r.watch.View(time.Now().Add(ownWriteFor)); v.Nodes[0].Wanted.Hash != "h" {
		t.Errorf("what the watch never told of counts for ever: %+v", v.Nodes[0].Wanted)
	}
	tell(nil, `application/merge-patch+json {"spec":{"configuration":null}}`)
	if n, _ := r.only(); n.Wanted != nil {
		t.Errorf("that nothing was told does not count: %+v", n.Wanted)
	}
	// Once the watch has told of it, later changes of others count at once.
	silent := standin.FromYAML(t, reportText)
	delete(silent.Object, "spec")
	r.server.Set(silent)
	r.eventually("the watch has told", func() bool { return r.watch.View(time.Now().Add(ownWriteFor)).Nodes[0].Wanted == nil })
	tell(wanted, `application/merge-patch+json {"spec":{"configuration":`+value+`}}`) // there is no spec that could be added to
	r.server.Set(standin.With(silent, map[string]any{"name": "web", "revision": "r2", "hash": "h2"}, "spec", "configuration"))
	r.eventually("the watch has told again", func() bool { return r.watch.View(time.Now().Add(ownWriteFor)).Nodes[0].Wanted != nil })
	r.server.Set(silent)
	r.eventually("the watch has told of others", func() bool { return r.watch.View(time.Now().Add(ownWriteFor)).Nodes[0].Wanted == nil })
	if n, _ := r.only(); n.Wanted != nil {
		t.Errorf("the own write counts, though the watch has told of it and of a later one: %+v", n.Wanted)
	}

	r.answers(http.StatusConflict)
	if err := r.writer.Tell(t.Context(), &config.Tell{Node: "n1", Wanted: wanted}); err == nil || !strings.Contains(err.Error(), "n1") {
		t.Errorf("a refused write: %v", err)
	}
	if n, _ := r.only(); n.Wanted != nil {
		t.Error("a refused write counts")
	}
}

// A status is written at the version that it was decided from, once, and an older one that the watch delivers does not take its place.
func TestStatus(t *testing.T) {
	r := newRig(t)
	status := spec.NodeConfigurationStatus{ObservedGeneration: 3, Nodes: spec.ConfigurationNodes{Targeted: 2, Told: 2, Applied: 1}}
	conditions := []spec.NodeCondition{{Type: config.ConditionValid, True: true, Reason: config.ReasonAccepted}}
	write := func(s spec.NodeConfigurationStatus, object string) (bool, error) {
		return r.writer.Status(t.Context(), &config.StatusWrite{Object: object, Status: s, Conditions: conditions})
	}
	version := r.server.Stored(v1alpha1.NodeConfigurations+"."+v1alpha1.Group, "", "web").GetResourceVersion()
	if written, err := write(status, "web"); !written || err != nil {
		t.Fatal(written, err)
	}
	got := r.wrote()
	if len(got) != 1 || !strings.HasPrefix(got[0], "PUT nodeconfigurations/web/status application/json ") || !strings.Contains(got[0], `"metadata":{"name":"web","resourceVersion":"`+version+`","uid":"u"}`) ||
		!strings.Contains(got[0], `"told":2`) || !strings.Contains(got[0], `"type":"Valid","status":"True","observedGeneration":3`) || strings.Contains(got[0], `"spec"`) {
		t.Errorf("wrote %q", got)
	}
	if written, err := write(status, "web"); written || err != nil || len(r.wrote()) > 0 {
		t.Errorf("what is there already was written: %v %v", written, err)
	}
	if written, err := write(status, "other"); written || err != nil || len(r.wrote()) > 0 {
		t.Errorf("of an object that is gone: %v %v", written, err)
	}
	// The watch is late: what people have written since counts, and the status is ours.
	r.server.Set(standin.With(standin.FromYAML(t, objectText), int64(9), "spec", "priority"))
	r.eventually("the new spec is seen", func() bool { _, o := r.only(); return o.Spec.Priority == 9 })
	if _, o := r.only(); o.Status.Nodes.Told != 2 {
		t.Errorf("the own status is lost: %+v", o.Status)
	}
	// A conflict ends that: what the API server has counts from the next event on.
	r.answers(http.StatusConflict)
	status.Nodes.Told = 0
	if written, err := write(status, "web"); written || err == nil {
		t.Errorf("a conflict: %v %v", written, err)
	}
	if got := r.wrote(); len(got) != 1 || !strings.Contains(got[0], `"resourceVersion":"777"`) {
		t.Errorf("wrote %q, want it at the version of the last write", got)
	}
	r.server.Set(standin.With(standin.FromYAML(t, objectText), int64(10), "spec", "priority"))
	r.eventually("the API server's status counts", func() bool { _, o := r.only(); return o.Spec.Priority == 10 && o.Status.Nodes.Told == 1 })
}

// A controller that does not lead, or not for long enough, writes nothing.
func TestFence(t *testing.T) {
	r := newRig(t)
	r.fence.Shut()
	err := r.writer.Tell(t.Context(), &config.Tell{Node: "n1"})
	_, statusErr := r.writer.Status(t.Context(), &config.StatusWrite{Object: "web", Status: spec.NodeConfigurationStatus{ObservedGeneration: 4}})
	if !errors.Is(err, lease.ErrFenced) || !errors.Is(statusErr, lease.ErrFenced) || len(r.wrote()) > 0 {
		t.Errorf("told: %v; status: %v", err, statusErr)
	}
}

// The role asks for what it may, and no more nodes are told at once than that.
func TestBounds(t *testing.T) {
	r := newRig(t)
	allowed := 0
	for range 10 * tellsBurst {
		if r.writer.Allowed() {
			allowed++
		}
	}
	if allowed < tellsBurst || allowed >= 5*tellsBurst {
		t.Errorf("%d nodes may be told at once, want about %d", allowed, tellsBurst)
	}
	want := []string{"list /nodes", "list node.hilbert.dev/customnoderesources", "list node.hilbert.dev/nodeconfigurations"}
	r.eventually("it watches", func() bool { return len(r.server.Asked()) == 2*len(want) })
	for _, asked := range r.server.Asked() {
		if verb := strings.Replace(asked, "watch ", "list ", 1); !slices.Contains(want, verb) {
			t.Errorf("it asks for %q", asked)
		}
	}
}
