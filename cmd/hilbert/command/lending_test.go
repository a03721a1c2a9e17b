package command

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon/daemontest"
	"hilbert.dev/hilbert/kube/standin"
)

// lender is a node of two NUMA nodes that lends.
func lender(name string, observed time.Time) *v1alpha1.CustomNodeResource {
	c := &v1alpha1.CustomNodeResource{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("cnr-" + name)}}
	c.APIVersion, c.Kind = spec.NodeAPIVersion, spec.NodeKind
	s := &c.Status
	s.ObservedAt, s.Mode, s.ThreadsPerCore = metav1.NewTime(observed), spec.ModeAgent, 1
	amounts := spec.NUMAAmounts{CPUs: 4, MemoryMiB: 2048}
	for _, numa := range []string{"0", "1"} {
		s.Topology = append(s.Topology, spec.TopologyElement{Type: spec.ElementSocket, Name: numa, Children: []spec.TopologyElement{{Type: spec.ElementNUMANode, Name: numa, Capacity: &amounts, Allocatable: &amounts}}})
	}
	s.Conditions = []metav1.Condition{{
		Type: spec.ConditionAgentReady, Status: metav1.ConditionTrue, Reason: spec.ReasonAgentRunning, LastTransitionTime: metav1.NewTime(observed),
	}}
	s.Colocation = &spec.Colocation{
		Headroom: spec.ReclaimedAmounts{MilliCPU: 3500, MemoryMiB: 1536}, Lent: spec.ReclaimedAmounts{MilliCPU: 2000, MemoryMiB: 512},
		Suppression: spec.SuppressionWeight,
		NUMANodes: []spec.NUMAHeadroom{
			{Name: "0", ReclaimedAmounts: spec.ReclaimedAmounts{MilliCPU: 2500, MemoryMiB: 1024}, CPUReason: "Use", MemoryReason: "Capacity", Message: "4 CPUs, 1.5 in use"},
			{Name: "1", ReclaimedAmounts: spec.ReclaimedAmounts{MilliCPU: 1000, MemoryMiB: 512}, CPUReason: "Pressure", MemoryReason: "Use"},
		},
	}
	return c
}

const topLendingText = `
NODE MODE READY OBSERVED NUMA CPUS FREE OF MEMORY FREE OF DEDICATED POOLS DEVICES HEADROOM LENT HELD DOWN EVICTIONS NOTE
n1 agent yes 10s 0 ........ 4 4 2Gi 2Gi 0 - - 2.5/1Gi 2/512Mi Weight 1
 1 ........ 4 4 2Gi 2Gi 0 - - 1/512Mi
n2 agent yes 60s 0 ........ 4 4 2Gi 2Gi 0 - - 2.5/1Gi STALE 2/512Mi Weight 0
 1 ........ 4 4 2Gi 2Gi 0 - - 1/512Mi STALE
n3 agent yes 10s 0 ........ 4 4 2Gi 2Gi 0 - - 2.5/1Gi CLOSED 2/512Mi Weight 0
 1 ........ 4 4 2Gi 2Gi 0 - - 1/512Mi CLOSED
n4 agent yes 10s 0 ........ 4 4 2Gi 2Gi 0 - - -
 1 ........ 4 4 2Gi 2Gi 0 - -

4 nodes: 32 of 32 CPUs can be promised, 0 pods have CPUs of their own.
`

func TestTopLending(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	view := &nodesView{}
	for name, change := range map[string]func(*v1alpha1.CustomNodeResource){
		"n1": func(c *v1alpha1.CustomNodeResource) {
			c.Status.Colocation.Evictions = []spec.EvictionRequest{{Namespace: "default", Name: "p", UID: "u"}}
		},
		"n2": func(c *v1alpha1.CustomNodeResource) { c.Status.ObservedAt = metav1.NewTime(noon.Add(-time.Minute)) },
		"n3": func(c *v1alpha1.CustomNodeResource) { c.Status.Colocation.Closed = "evicted" },
		"n4": func(c *v1alpha1.CustomNodeResource) { c.Status.Colocation = nil },
	} {
		c := lender(name, noon.Add(-10*time.Second))
		change(c)
		row := rowOfNode(c, noon, 15*time.Minute)
		view.Nodes = append(view.Nodes, row)
		if (row.Lending == nil) != (name == "n4") || row.Lending != nil && row.Lending.Problem != "" {
			t.Errorf("%s lends %+v", name, row.Lending)
		}
	}
	slices.SortFunc(view.Nodes, func(a, b nodeRow) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	if err := view.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	if squeezed(out.String()) != squeezed(topLendingText) {
		t.Errorf("got\n%s\nwant\n%s", squeezed(out.String()), topLendingText)
	}
}

func object(t *testing.T, v any) *unstructured.Unstructured {
	t.Helper()
	data, err := json.Marshal(v)
	u := &unstructured.Unstructured{}
	if err == nil {
		err = yaml.Unmarshal(data, &u.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// What a node lends is explained by the scheduler's own figures and the agent's reasons; from a file only by the former.
func TestExplainNode(t *testing.T) {
	c := &leader{api: standin.New(t)}
	c.api.Offer("customnoderesources.node.hilbert.dev", v1alpha1.Version)
	c.api.SetNode(apiNode("n1", "4"))
	report := lender("n1", time.Now())
	report.Status.Colocation.Evictions = []spec.EvictionRequest{{Namespace: "default", Name: "p", UID: "uid-p", Reason: "MemoryPressure", Message: "95 %\x1b[2J"}} // a node may say anything
	c.api.Set(object(t, report))
	p := apiPod("p", "0")
	p.Labels, p.Spec.NodeName = map[string]string{spec.LabelQoS: string(spec.QoSReclaimed)}, "n1"
	c.api.SetPod(p)
	c.hilbertd = daemontest.Start(t, c.api)
	c.api.User(daemontest.Token, "ada", daemontest.Everything...)
	c.awaitQueue(t, "0 pods wait")
	out, err := run(t.Context(), t, append([]string{"explain", "node", "n1"}, c.hilbertd.Flags()...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"n1 lends reclaimed pods 3500m cpu and 1.5Gi memory; 3500m cpu and 1.5Gi memory are left.", "1 reclaimed pods request", `default/p: MemoryPressure: 95 %\u001b[2J (waiting)`,
		"Lent now: 2 CPUs and 512Mi. Suppression of reclaimed pods: Weight.", "0 2.5 Use 1Gi Capacity 4 CPUs, 1.5 in use", "all 3.5 1.5Gi",
	} {
		if !strings.Contains(squeezed(out), want) {
			t.Errorf("it lacks %q:\n%s", want, out)
		}
	}
	out, err = run(t.Context(), t, append([]string{"explain", "node", "n1", "-o", "json"}, c.hilbertd.Flags()...)...)
	var answer nodeAnswer
	if err != nil || json.Unmarshal([]byte(out), &answer) != nil || answer.Offered.MilliCPU != 3500 || answer.Report == nil || len(answer.Report.NUMANodes) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	if _, err = run(t.Context(), t, append([]string{"explain", "node", "n9"}, c.hilbertd.Flags()...)...); err == nil || !strings.Contains(err.Error(), `no node "n9"`) {
		t.Errorf("of a node that is not there: %v", err)
	}
}
