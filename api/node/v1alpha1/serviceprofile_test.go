package v1alpha1

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/crdtest"
	"hilbert.dev/hilbert/api/spec"
)

// The definition has the fields of the Go types and no others, and bounds every list, map, number and text.
func TestProfileDefinition(t *testing.T) {
	d := crdtest.Read(t, "serviceprofile.yaml")
	if d.Name != ServiceProfiles+"."+Group || d.Scope != "Namespaced" || d.Kind != spec.ProfileKind || d.Plural != ServiceProfiles || d.Version != Version || d.Status {
		t.Errorf("got %+v", d)
	}
	d.Compare(t, reflect.TypeFor[ServiceProfile](), crdtest.Rules{
		Texts: []reflect.Type{reflect.TypeFor[metav1.Time](), reflect.TypeFor[spec.Duration]()},
	})
	s := d.Schema
	indicator := s.Properties["spec"].Properties["indicators"].Items
	if want := []string{spec.IndicatorRunDelay, spec.IndicatorCPUPressure, spec.IndicatorCPI, spec.IndicatorMetric}; !slices.Equal(indicator.Properties["type"].Enum, want) {
		t.Errorf("types %v", indicator.Properties["type"].Enum)
	}
	bounds := s.Properties["spec"].Properties["bounds"].Properties
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"target", *indicator.Properties["target"].Minimum, spec.MinTarget},
		{"target", *indicator.Properties["target"].Maximum, spec.MaxTarget},
		{"weight", *indicator.Properties["weight"].Minimum, spec.MinWeight},
		{"weight", *indicator.Properties["weight"].Maximum, spec.MaxWeight},
		{"CPUs", *bounds["maxCPUs"].Maximum, spec.MaxProfileCPUs},
		{"percent", *bounds["maxPercent"].Maximum, spec.MaxProfileShare},
		{"indicators", float64(s.Properties["spec"].Properties["indicators"].MaxItems), spec.MaxIndicators},
		{"labels", float64(indicator.Properties["metric"].Properties["labels"].MaxProperties), spec.MaxMetricLabels},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// The example is a profile without mistakes, and its selector selects the pods beside it.
func TestProfileExample(t *testing.T) {
	text, err := os.ReadFile("../../../examples/serviceprofile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p ServiceProfile
	first, second, _ := strings.Cut(string(text), "\n---\n")
	if err := yaml.UnmarshalStrict([]byte(first), &p); err != nil {
		t.Fatal(err)
	}
	if err := spec.ValidateProfile(&p.Spec); err != nil || p.Kind != spec.ProfileKind || p.APIVersion != spec.NodeAPIVersion {
		t.Errorf("%s %s: %v", p.APIVersion, p.Kind, err)
	}
	var d struct {
		Spec struct {
			Template struct {
				Metadata struct{ Labels map[string]string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(second), &d); err != nil || !p.Spec.Selector.Matches(d.Spec.Template.Metadata.Labels) {
		t.Errorf("it does not select %v: %v", d.Spec.Template.Metadata.Labels, err)
	}
}

func TestProfileDeepCopySharesNothing(t *testing.T) {
	full := func() *ServiceProfileList {
		return &ServiceProfileList{Items: []ServiceProfile{{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
			Spec: spec.ServiceProfile{
				Selector: spec.PodSelector{
					MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []spec.SelectorTerm{{Key: "k", Operator: spec.SelectIn, Values: []string{"v"}}},
				},
				Indicators: []spec.ProfileIndicator{{Type: spec.IndicatorMetric, Metric: &spec.ProfileMetric{Name: "m", Labels: map[string]string{"a": "b"}}}},
			},
		}}}
	}
	original := full()
	copied, ok := original.DeepCopyObject().(*ServiceProfileList)
	if !ok || !reflect.DeepEqual(original, copied) {
		t.Fatalf("got %+v", copied)
	}
	p := &copied.Items[0]
	p.Labels["a"], p.Spec.Selector.MatchLabels["a"], p.Spec.Selector.MatchExpressions[0].Values[0] = "x", "x", "x"
	p.Spec.Selector.MatchExpressions[0].Key, p.Spec.Indicators[0].Metric.Labels["a"], p.Spec.Indicators[0].Metric.Name, p.Spec.Indicators[0].Type = "x", "x", "x", "x"
	if !reflect.DeepEqual(original, full()) {
		t.Error("the original changed: " + fmt.Sprint(original.Items[0]))
	}
	if (*ServiceProfile)(nil).DeepCopy() != nil {
		t.Error("the copy of nothing is something")
	}
}
