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
func TestNodeConfigurationDefinition(t *testing.T) {
	d := crdtest.Read(t, "nodeconfiguration.yaml")
	if d.Name != NodeConfigurations+"."+Group || d.Scope != "Cluster" || d.Kind != spec.NodeConfigurationKind || d.Plural != NodeConfigurations || !d.Status {
		t.Errorf("got %+v", d)
	}
	d.Compare(t, reflect.TypeFor[NodeConfiguration](), crdtest.Rules{
		Texts: []reflect.Type{reflect.TypeFor[metav1.Time](), reflect.TypeFor[time.Time](), reflect.TypeFor[spec.Duration]()},
		Trees: []reflect.Type{reflect.TypeFor[spec.WrittenParameters]()},
		Free:  []string{".status.conditions[].observedGeneration"},
	})
	of := d.Schema.Properties["spec"].Properties
	if of["nodeNames"].MaxItems != spec.MaxConfigurationNodes || of["rollout"].Properties["steps"].MaxItems != spec.MaxRolloutSteps {
		t.Error("the bounds of lists are not those of api/spec")
	}
}

// The example is a NodeConfiguration without mistakes.
func TestNodeConfigurationExample(t *testing.T) {
	text, err := os.ReadFile("../../../examples/nodeconfiguration.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c NodeConfiguration
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		t.Fatal(err)
	}
	if err := spec.ValidateNodeConfiguration(&c.Spec); err != nil {
		t.Error(err)
	}
}

// A copy is equal and shares no memory: changing all of the one leaves the other as it was.
func TestNodeConfigurationDeepCopy(t *testing.T) {
	const text = `{"spec":{"nodeNames":["a"],"nodeSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]},
		"parameters":{"lending":{"step":5}},"expires":"2026-01-01T00:00:00Z","rollout":{"steps":[5,100],"pause":"1m",
		"gate":{"runDelayPercent":1,"runDelaySlack":2,"evictionsPerHundred":3,"unreadyPercent":4}}},
		"status":{"stable":{"nodeNames":["b"],"parameters":{}},"rollout":{"revision":"r","settledAt":"2026-01-01T00:00:00Z"},"conditions":[{"type":"Valid"}]}}`
	var a NodeConfiguration
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	b := a.DeepCopy()
	before, _ := json.Marshal(&a)
	if after, _ := json.Marshal(b); string(before) != string(after) {
		t.Fatalf("%s\n%s", before, after)
	}
	b.Spec.NodeNames[0], b.Spec.NodeSelector.MatchLabels["a"], b.Spec.NodeSelector.MatchExpressions[0].Values[0] = "x", "x", "x"
	b.Spec.Parameters[0], *b.Spec.Expires, b.Spec.Rollout.Steps[0], *b.Spec.Rollout.Pause, *b.Spec.Rollout.Gate.UnreadyPercent = '[', time.Time{}, 9, 9, 9
	b.Status.Stable.NodeNames[0], b.Status.Stable.Parameters[0], *b.Status.Rollout.SettledAt, b.Status.Conditions[0].Type = "x", '[', time.Time{}, "x"
	if after, _ := json.Marshal(&a); string(before) != string(after) {
		t.Errorf("the copy shares memory\n%s\n%s", before, after)
	}
}
