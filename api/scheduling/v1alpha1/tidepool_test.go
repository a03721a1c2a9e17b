package v1alpha1

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/crdtest"
	"hilbert.dev/hilbert/api/spec"
)

// The definition has the fields of the Go types and no others, and bounds every list, map, number and text.
func TestTidePoolDefinition(t *testing.T) {
	d := crdtest.Read(t, "tidepool.yaml")
	if d.Name != TidePools+"."+Group || d.Scope != "Cluster" || d.Kind != spec.TidePoolKind || d.Plural != TidePools || !d.Status {
		t.Errorf("got %+v", d)
	}
	d.Compare(t, reflect.TypeFor[TidePool](), crdtest.Rules{
		Texts: []reflect.Type{reflect.TypeFor[metav1.Time](), reflect.TypeFor[time.Time](), reflect.TypeFor[spec.Duration]()},
		Free:  []string{".status.conditions[].observedGeneration"},
	})
	if d.Schema.Properties["spec"].Properties["schedule"].MaxItems != spec.MaxTideWindows {
		t.Error("the bounds of lists are not those of api/spec")
	}
}

// The example is a TidePool without mistakes, and a copy of it shares no memory.
func TestTidePoolExample(t *testing.T) {
	text, err := os.ReadFile("../../../examples/tidepool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p TidePool
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	if err := spec.ValidateTidePool(&p.Spec); err != nil {
		t.Error(err)
	}
	p.Status.LowSince, p.Status.Next = new(time.Time), &spec.TideNext{Name: "x"}
	p.Status.Changing, p.Status.HandOvers = []spec.TideChanging{{Node: "a"}}, []spec.TideHandOvers{{Nodes: 1}}
	p.Status.Conditions = []metav1.Condition{{Type: "Valid"}}
	before, _ := json.Marshal(&p)
	b := p.DeepCopy()
	if after, _ := json.Marshal(b); string(before) != string(after) {
		t.Fatalf("%s\n%s", before, after)
	}
	b.Spec.Schedule[0].Name, *b.Spec.NodesPerHour, b.Spec.NodeSelector.MatchLabels["pool"] = "x", 99, "x"
	*b.Status.LowSince, b.Status.Next.Name, b.Status.Changing[0].Node, b.Status.HandOvers[0].Nodes, b.Status.Conditions[0].Type = time.Now(), "y", "b", 2, "x"
	if after, _ := json.Marshal(&p); string(before) != string(after) {
		t.Errorf("the copy shares memory\n%s\n%s", before, after)
	}
}
