package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/standin"
)

const allNodeReports = "customnoderesources.node.hilbert.dev"

type agentRig struct {
	server   *standin.Server
	reporter *Reporter
	ahead    time.Duration
	requests []string
}

func newAgentRig(t *testing.T) *agentRig {
	t.Helper()
	r := &agentRig{server: standin.New(t)}
	r.restart(t)
	r.count()
	return r
}

// count notes the requests.
func (r *agentRig) count() {
	r.server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		r.requests = append(r.requests, request.Method)
		return false
	})
}

// restart begins with a reporter that remembers nothing.
func (r *agentRig) restart(t *testing.T) {
	t.Helper()
	var err error
	if r.reporter, err = NewReporter(r.server.Connection(), "n", time.Minute); err != nil {
		t.Fatal(err)
	}
	r.reporter.now = func() time.Time { return time.Unix(1_700_000_000, 0).Add(r.ahead) }
	t.Cleanup(r.reporter.Close)
}

// there is a Node, and the definition is installed.
func (r *agentRig) there() {
	r.server.Offer(allNodeReports, v1alpha1.Version)
	r.server.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}})
}

func (r *agentRig) report(t *testing.T, report *spec.NodeReport, requests string) {
	t.Helper()
	r.requests = nil
	if err := r.reporter.Report(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.requests, " "); got != requests {
		t.Errorf("requests %s, want %s", got, requests)
	}
}

func (r *agentRig) stored(t *testing.T) *v1alpha1.CustomNodeResource {
	t.Helper()
	data, err := json.Marshal(r.server.Stored(allNodeReports, "", "n"))
	if err != nil {
		t.Fatal(err)
	}
	out := &v1alpha1.CustomNodeResource{}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// told writes what hilbertd tells the agent.
func (r *agentRig) told(t *testing.T, patch string) {
	t.Helper()
	api, err := agentRequester(r.server.Connection(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.CloseIdle)
	a := api.Do(t.Context(), &apiserver.Call{Method: http.MethodPatch, Path: nodeReportsPath + "/n", ContentType: apiserver.ContentMerge, Body: []byte(patch)}, time.Minute)
	if err := a.Failure("patch"); err != nil {
		t.Fatal(err)
	}
}

func saying(ready bool, message string) *spec.NodeReport {
	return &spec.NodeReport{
		Status: spec.NodeStatus{Mode: spec.ModeAgent, ThreadsPerCore: 2, Topology: []spec.TopologyElement{{Type: spec.ElementSocket, Name: "0", Children: []spec.TopologyElement{{
			Type: spec.ElementNUMANode, Name: "0", Capacity: &spec.NUMAAmounts{CPUs: 8, MemoryMiB: 1000}, Allocatable: &spec.NUMAAmounts{CPUs: 6, MemoryMiB: 900},
			Allocations: []spec.NUMAAllocation{{Namespace: "ns", Name: "p", UID: "u", CPUSet: "2-3", CPUs: 2, MemoryMiB: 10}},
		}}}}},
		Conditions: []spec.NodeCondition{{Type: spec.ConditionAgentReady, True: ready, Reason: spec.ReasonAgentRunning, Message: message}},
	}
}

// The object is made once, owned by the Node; each report is then one write that says all.
func TestNodeReportWrite(t *testing.T) {
	r := newAgentRig(t)
	r.there()
	r.report(t, saying(true, "first"), "GET GET POST PUT")
	c := r.stored(t)
	if owner := c.OwnerReferences; len(owner) != 1 || owner[0].Kind != "Node" || owner[0].Name != "n" || owner[0].UID != "node-uid" || owner[0].APIVersion != "v1" {
		t.Errorf("owners %+v", owner)
	}
	if _, held, err := parse.NodeNUMANodes(&c.Status.NodeStatus); err != nil || len(held) != 1 || !c.Status.ObservedAt.Equal(new(metav1.NewTime(r.reporter.now()))) {
		t.Errorf("%+v, held %v, %v", c.Status, held, err)
	}
	r.ahead = time.Minute
	less := saying(true, "second")
	less.Status.Topology[0].Children[0].Allocations = nil
	r.report(t, less, "PUT")
	c = r.stored(t)
	if len(c.Status.Topology[0].Children[0].Allocations) > 0 || c.Status.ObservedAt.Unix() != 1_700_000_060 {
		t.Errorf("what is not said any more stays: %+v", c.Status)
	}
}

// Conditions tell since when they are so, over restarts too.
func TestNodeConditionTimes(t *testing.T) {
	r := newAgentRig(t)
	r.there()
	since := func() int64 { return r.stored(t).Status.Conditions[0].LastTransitionTime.Unix() - 1_700_000_000 }
	for i, step := range []struct {
		ready, restart bool
		want           int64
	}{{true, false, 0}, {true, false, 0}, {true, true, 0}, {false, false, 3}, {false, true, 3}, {true, true, 5}} {
		r.ahead = time.Duration(i) * time.Second
		if step.restart {
			r.restart(t)
		}
		if err := r.reporter.Report(t.Context(), saying(step.ready, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if got := since(); got != step.want {
			t.Errorf("step %d: since %d, want %d", i, got, step.want)
		}
	}
	unknown := saying(false, "")
	unknown.Conditions[0].Unknown = true
	r.report(t, unknown, "PUT")
	if got := r.stored(t).Status.Conditions[0].Status; got != metav1.ConditionUnknown {
		t.Errorf("status %s", got)
	}
}

// An old write that arrives late does not take the place of a newer one; somebody else's is read and written over.
func TestNodeReportKeepsItsOrder(t *testing.T) {
	r := newAgentRig(t)
	r.there()
	r.report(t, saying(true, "first"), "GET GET POST PUT")
	other := r.server.Stored(allNodeReports, "", "n")
	other.SetLabels(map[string]string{"a": "b"})
	r.server.Set(other)
	r.report(t, saying(true, "second"), "PUT GET PUT")
	if c := r.stored(t); c.Labels["a"] != "b" || c.Status.Conditions[0].Message != "second" {
		t.Errorf("%+v", c)
	}
	r.server.Delete(other)
	r.report(t, saying(true, "third"), "PUT GET GET POST PUT")
	r.report(t, saying(true, "fourth"), "PUT")

	// The answer is lost: what is known of the object is, too.
	r.server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no", http.StatusInternalServerError)
		return true
	})
	if err := r.reporter.Report(t.Context(), saying(true, "")); err == nil || !strings.Contains(err.Error(), "answers 500") {
		t.Errorf("err %v", err)
	}
	r.count()
	r.report(t, saying(true, "fifth"), "GET PUT")
}

func TestNodeReportNowhere(t *testing.T) {
	r := newAgentRig(t)
	r.server.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}})
	if err := r.reporter.Report(t.Context(), saying(true, "")); !errors.Is(err, apiserver.ErrNoDefinition) {
		t.Errorf("err %v", err)
	}
	r.server.Offer(allNodeReports, v1alpha1.Version)
	r.server.DeleteNode("n")
	if err := r.reporter.Report(t.Context(), saying(true, "")); !errors.Is(err, ErrNoNode) {
		t.Errorf("err %v", err)
	}
	r.there()
	r.report(t, saying(true, ""), "GET GET POST PUT")
}

// What hilbertd wrote down is read; without a CustomNodeResource nothing is known.
func TestRefusals(t *testing.T) {
	r := newAgentRig(t)
	refusals, err := NewRefusals(r.server.Connection(), "n", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(refusals.Close)
	if uids, err := refusals.Read(t.Context()); !errors.Is(err, errNoReport) {
		t.Errorf("before there is one: %v, %v", uids, err)
	}
	r.there()
	r.report(t, saying(true, ""), "GET GET POST PUT")
	if uids, err := refusals.Read(t.Context()); err != nil || len(uids) != 0 {
		t.Errorf("nothing is refused: %v, %v", uids, err)
	}
	r.told(t, `{"spec":{"refusedEvictions":[{"namespace":"default","name":"p","uid":"u"},{"namespace":"default","name":"q","uid":"v"}]}}`)
	if uids, err := refusals.Read(t.Context()); err != nil || !slices.Equal(uids, []string{"u", "v"}) {
		t.Errorf("two are refused: %v, %v", uids, err)
	}
}

// The agent hears what its node is told: when it begins to watch, and after each change; nothing of other nodes, and nothing new while the object is gone.
func TestConfigurationIsFollowed(t *testing.T) {
	r := newAgentRig(t)
	r.there()
	r.report(t, saying(true, ""), "GET GET POST PUT")
	told := make(chan *spec.WantedConfiguration, 8)
	w, err := WatchConfiguration(t.Context(), r.server.Connection(), "n", func(c *spec.WantedConfiguration) { told <- c }, silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	if c := <-told; c != nil {
		t.Errorf("nothing was told, and heard was %+v", c)
	}
	r.told(t, `{"spec":{"configuration":{"name":"web","revision":"r","hash":"h","parameters":{"lending":{"step":5}}}}}`)
	c := <-told
	for c == nil { // what was said before
		c = <-told
	}
	if c.Name != "web" || c.Hash != "h" || string(c.Parameters) != `{"lending":{"step":5}}` {
		t.Errorf("heard %+v", c)
	}
}

// The agent asks for all that Permissions lists, and for nothing else.
func TestAgentAsksForNoMoreThanItMay(t *testing.T) {
	r := newAgentRig(t)
	r.there()
	r.report(t, saying(true, ""), "GET GET POST PUT")
	offers, err := NewGPUOffers(r.server.Connection(), "n", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(offers.Close)
	if _, err := offers.Ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.server.Offer(allProfiles, "v1alpha1")
	told := make(chan int, 1)
	profiles, err := WatchProfiles(t.Context(), r.server.Connection(), func(list []spec.NamedProfile) { told <- len(list) }, silent)
	if err != nil {
		t.Fatal(err)
	}
	<-told
	profiles.Stop()
	configured := make(chan *spec.WantedConfiguration, 8)
	configuration, err := WatchConfiguration(t.Context(), r.server.Connection(), "n", func(w *spec.WantedConfiguration) { configured <- w }, silent)
	if err != nil {
		t.Fatal(err)
	}
	<-configured
	configuration.Stop()
	var want []string
	for _, p := range Permissions {
		for _, verb := range p.Verbs {
			want = append(want, verb+" "+p.Group+"/"+p.Resource)
		}
	}
	slices.Sort(want)
	if got := r.server.Asked(); !slices.Equal(got, want) {
		t.Errorf("asked %v\nmay   %v", got, want)
	}
}
