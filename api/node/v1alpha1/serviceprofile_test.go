package v1alpha1

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/deploy/crds"
)

// profileNode is as much of an OpenAPI schema as the comparison of ServiceProfiles needs.
type profileNode struct {
	Properties           map[string]*profileNode
	Items                *profileNode
	AdditionalProperties *profileNode
	Required             []string
	Enum                 []string
	Type                 string
	MaxItems             int
	MaxProperties        int
	MaxLength            int
	Minimum, Maximum     *float64
	Format               string
}

func profileSchema(t *testing.T) (name, scope string, s *profileNode) {
	t.Helper()
	text, err := fs.ReadFile(crds.Files, "serviceprofile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Metadata struct{ Name string }
		Spec     struct {
			Scope    string
			Names    struct{ Kind, Plural string }
			Versions []struct {
				Name         string
				Subresources map[string]any
				Schema       struct{ OpenAPIV3Schema *profileNode }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	v := crd.Spec.Versions[0]
	if _, status := v.Subresources["status"]; !status || crd.Spec.Names.Kind != spec.ProfileKind || crd.Spec.Names.Plural != ServiceProfiles || v.Name != Version {
		t.Errorf("got %+v", crd.Spec.Names)
	}
	return crd.Metadata.Name, crd.Spec.Scope, v.Schema.OpenAPIV3Schema
}

// The definition has the fields of the Go types and no others, and bounds every list, map, number and text.
func TestProfileDefinition(t *testing.T) {
	name, scope, s := profileSchema(t)
	if name != ServiceProfiles+"."+Group || scope != "Namespaced" {
		t.Errorf("%s, %s", name, scope)
	}
	delete(s.Properties, "apiVersion")
	delete(s.Properties, "kind")
	s.Properties["metadata"] = nil
	compareProfile(t, "", s, reflect.TypeFor[ServiceProfile]())

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

func compareProfile(t *testing.T, path string, s *profileNode, typ reflect.Type) {
	t.Helper()
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	kind := typ.Kind().String()
	switch {
	case s == nil:
		return
	case typ == reflect.TypeFor[metav1.Time](), typ == reflect.TypeFor[spec.Duration]():
		kind = "string"
	case typ.Kind() == reflect.Struct:
		kind = "object"
		profileFields(t, path, s, typ)
	case typ.Kind() == reflect.Map:
		kind = "object"
		if s.MaxProperties == 0 {
			t.Errorf("%s: a map without a bound", path)
		}
		compareProfile(t, path+"[]", s.AdditionalProperties, typ.Elem())
	case typ.Kind() == reflect.Slice:
		kind = "array"
		if s.MaxItems == 0 {
			t.Errorf("%s: a list without a bound", path)
		}
		compareProfile(t, path+"[]", s.Items, typ.Elem())
	case typ.Kind() == reflect.Int64, typ.Kind() == reflect.Int, typ.Kind() == reflect.Float64:
		kind = map[bool]string{true: "number", false: "integer"}[typ.Kind() == reflect.Float64]
		if (s.Minimum == nil || s.Maximum == nil) && !strings.HasSuffix(path, ".observedGeneration") {
			t.Errorf("%s: a number without bounds", path)
		}
	case typ.Kind() == reflect.String:
		if s.MaxLength == 0 && len(s.Enum) == 0 {
			t.Errorf("%s: a text without a bound", path)
		}
	}
	if s.Type != kind {
		t.Errorf("%s: type %q, want %q", path, s.Type, kind)
	}
}

func profileFields(t *testing.T, path string, s *profileNode, typ reflect.Type) {
	t.Helper()
	have := make(map[string]reflect.Type)
	var always []string
	collect(typ, have, &always)
	got, want := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(have))
	if !slices.Equal(got, want) {
		t.Errorf("%s: fields %v, want %v", path, got, want)
		return
	}
	for _, name := range always {
		if !slices.Contains(s.Required, name) {
			t.Errorf("%s.%s is always written, but not required", path, name)
		}
	}
	for _, name := range want {
		compareProfile(t, path+"."+name, s.Properties[name], have[name])
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
			Status: ServiceProfileStatus{Conditions: []metav1.Condition{{Type: "Ready"}}},
		}}}
	}
	original := full()
	copied, ok := original.DeepCopyObject().(*ServiceProfileList)
	if !ok || !reflect.DeepEqual(original, copied) {
		t.Fatalf("got %+v", copied)
	}
	p := &copied.Items[0]
	p.Labels["a"], p.Spec.Selector.MatchLabels["a"], p.Spec.Selector.MatchExpressions[0].Values[0], p.Status.Conditions[0].Type = "x", "x", "x", "x"
	p.Spec.Selector.MatchExpressions[0].Key, p.Spec.Indicators[0].Metric.Labels["a"], p.Spec.Indicators[0].Metric.Name, p.Spec.Indicators[0].Type = "x", "x", "x", "x"
	if !reflect.DeepEqual(original, full()) {
		t.Error("the original changed: " + fmt.Sprint(original.Items[0]))
	}
	if (*ServiceProfile)(nil).DeepCopy() != nil {
		t.Error("the copy of nothing is something")
	}
}
