package colocation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/report"
)

// short is a morning of a few minutes on a rack of nodes.
func short(t *testing.T) Options {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	o := Defaults()
	o.Nodes, o.Length, o.WarmUp, o.Speed = nodesPerRack, 6*time.Minute, 4*time.Minute, 0
	o.Rush = Rush{At: 2 * time.Minute, For: 2 * time.Minute, Rise: 10 * time.Second, Factor: 1.6}
	o.Tide = SyntheticTide(o.Length)
	o.Progress = t.Logf
	o.Log = t.Output()
	return o
}

// judge is what is wrong with a record: what a morning with lending must show.
func judge(r *report.Colocation) (mistakes []string) {
	claim := func(ok bool, format string, args ...any) {
		if !ok {
			mistakes = append(mistakes, fmt.Sprintf(format, args...))
		}
	}
	claim(r.Agents.Rounds >= uint64(r.Nodes*r.Seconds), "agents' laws had %d turns in %d s on %d nodes", r.Agents.Rounds, r.Seconds, r.Nodes)
	claim(r.Agents.Knobs > 0 && r.Agents.Updates > 0 && r.Agents.Reports > 0, "agents did nothing: %+v", r.Agents)
	claim(r.LentPercent > 10, "only %g %% was lent", r.LentPercent)
	claim(r.Hilbert.UsedPercent > r.Requests.UsedPercent+5, "used %g %%, and %g %% by requests alone", r.Hilbert.UsedPercent, r.Requests.UsedPercent)
	claim(r.Hilbert.JobsDone > 0, "no job was done")
	claim(r.Rush.Nodes == r.Nodes, "%d of %d nodes gave CPUs back", r.Rush.Nodes, r.Nodes)
	claim(r.Rush.LentLess < r.Rush.LentAt*9/10, "%d CPUs were lent before the rush, and %d in it", r.Rush.LentAt, r.Rush.LentLess)
	claim(r.Rush.Half != nil && *r.Rush.Half <= 30, "half of what was given back was back after %v s", r.Rush.Half)
	claim(r.Rush.Waited <= 30, "services lacked CPUs for %d s", r.Rush.Waited)
	claim(r.Hilbert.MissedPercent < 20, "services missed %g %% of their minutes", r.Hilbert.MissedPercent)
	claim(r.Gang != nil && r.Gang.Bound == r.Gang.Members && len(r.Gang.Racks) == 1, "the gang: %+v", r.Gang)
	claim(r.Slice != nil && r.Slice.Node == gpuNode && r.Slice.GPU != "", "the part of a GPU: %+v", r.Slice)
	for _, q := range r.Queues {
		claim(q.Started > 0, "queue %s started nothing", q.Name)
	}
	return mistakes
}

// What is lent comes back when services rise. The agents that do it are those of production: each says on its own what its node's kernel has, and its
// report is in the API server.
func TestMorning(t *testing.T) {
	o := short(t)
	o.inspect = func(ctx context.Context, b *bed) error { return inspectAgents(ctx, t, b) }
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range judge(r) {
		t.Error(m)
	}
	r.Samples, r.Map = nil, nil
	text, _ := json.MarshalIndent(r, "", " ")
	t.Logf("%s", text)
}

// inspectAgents compares the agents' words with the kernels below them, and with what the API server has.
func inspectAgents(ctx context.Context, t *testing.T, b *bed) error {
	objects, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return err
	}
	list, err := objects.Resource(nodev1alpha1.GroupVersion.WithResource(nodev1alpha1.CustomNodeResources)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	reports := make(map[string]*unstructured.Unstructured)
	for i := range list.Items {
		reports[list.Items[i].GetName()] = &list.Items[i]
	}
	for _, name := range b.names {
		agent := b.agents.Agent(name)
		truth := agent.Modelled()
		said, state, ok := agent.Look()
		switch {
		case !ok || said.Status.Colocation == nil:
			t.Errorf("%s: its agent says nothing of lending", name)
		case truth.Jobs > 0 && said.Status.Colocation.Lent.MilliCPU != int64(truth.Lent)*milli:
			t.Errorf("%s: its agent says that %d m are lent, its kernel has %d CPUs", name, said.Status.Colocation.Lent.MilliCPU, truth.Lent)
		case state.Pods < servicesPerNode+truth.Jobs:
			t.Errorf("%s: its agent knows %d pods, %d jobs run beside %d services", name, state.Pods, truth.Jobs, servicesPerNode)
		}
		if why := judgeReport(reports[name], b.clock.Now()); why != "" {
			t.Errorf("%s: its CustomNodeResource %s", name, why)
		}
	}
	return nil
}

// judgeReport is what is wrong with what the API server has of a node; empty: nothing.
func judgeReport(written *unstructured.Unstructured, now time.Time) string {
	if written == nil {
		return "is not there"
	}
	mode, _, _ := unstructured.NestedString(written.Object, "status", "mode")
	at, _, _ := unstructured.NestedString(written.Object, "status", "observedAt")
	observed, err := time.Parse(time.RFC3339, at)
	age := now.Sub(observed)
	switch {
	case err != nil:
		return "has no time: " + err.Error()
	case mode != string(spec.ModeAgent):
		return "is of mode " + mode
	case age > 2*time.Minute || age < -time.Minute:
		return fmt.Sprintf("is %s old by the clock of the morning", age)
	}
	return ""
}

// The control of the test above: where nothing is lent, the same play shows that, and judge says so.
func TestWithoutLendingNothingComesBack(t *testing.T) {
	o := short(t)
	o.NoLending, o.WarmUp, o.Length = true, time.Minute, 3*time.Minute
	o.Rush.At, o.Rush.For = time.Minute, time.Minute
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	mistakes := strings.Join(judge(r), "\n")
	t.Log(mistakes)
	for _, want := range []string{"was lent", "no job was done", "nodes gave CPUs back", "by requests alone", "the gang"} {
		if !strings.Contains(mistakes, want) {
			t.Errorf("nothing is lent, and nobody says: %q", want)
		}
	}
	if r.Lending || r.LentPercent != 0 || r.Hilbert.OfflinePercent != 0 || r.Hilbert.OnlinePercent == 0 {
		t.Errorf("%+v", r)
	}
}
