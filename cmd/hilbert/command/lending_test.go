package command

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/reporttest"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon/daemontest"
	"hilbert.dev/hilbert/kube/standin"
)

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
	report := reporttest.Lender("n1", time.Now())
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
		if !strings.Contains(spaces.ReplaceAllString(out, " "), want) {
			t.Errorf("it lacks %q:\n%s", want, out)
		}
	}
	out, err = run(t.Context(), t, append([]string{"explain", "node", "n1", "-o", "json"}, c.hilbertd.Flags()...)...)
	var answer struct {
		Offered struct{ MilliCPU int64 }
		Report  *spec.Colocation
	}
	if err != nil || json.Unmarshal([]byte(out), &answer) != nil || answer.Offered.MilliCPU != 3500 || answer.Report == nil || len(answer.Report.NUMANodes) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	if _, err = run(t.Context(), t, append([]string{"explain", "node", "n9"}, c.hilbertd.Flags()...)...); err == nil || !strings.Contains(err.Error(), `no node "n9"`) {
		t.Errorf("of a node that is not there: %v", err)
	}
}
