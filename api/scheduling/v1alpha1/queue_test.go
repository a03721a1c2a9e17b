package v1alpha1

import (
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/deploy/crds"
)

// node is as much of an OpenAPI schema as the comparison needs.
type node struct {
	Properties           map[string]*node
	Items                *node
	AdditionalProperties *node
	Enum                 []string
	Type                 string
	IntOrString          bool `json:"x-kubernetes-int-or-string"`
	MaxItems             int
	MaxProperties        int
	MaxLength            int
}

func definition(t *testing.T) (names map[string]string, version *node, status bool) {
	t.Helper()
	text, err := fs.ReadFile(crds.Files, "queue.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Metadata struct{ Name string }
		Spec     struct {
			Group, Scope string
			Names        struct{ Kind, Plural string }
			Versions     []struct {
				Name         string
				Subresources map[string]any
				Schema       struct{ OpenAPIV3Schema *node }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	v := crd.Spec.Versions[0]
	names = map[string]string{
		"name": crd.Metadata.Name, "group": crd.Spec.Group, "scope": crd.Spec.Scope, "kind": crd.Spec.Names.Kind, "plural": crd.Spec.Names.Plural, "version": v.Name,
	}
	_, status = v.Subresources["status"]
	return names, v.Schema.OpenAPIV3Schema, status
}

func TestDefinitionNamesTheTypes(t *testing.T) {
	names, _, status := definition(t)
	want := map[string]string{"name": Queues + "." + Group, "group": Group, "scope": "Cluster", "kind": "Queue", "plural": Queues, "version": Version}
	if !maps.Equal(names, want) || !status {
		t.Errorf("got %v, status %v; want %v", names, status, want)
	}
}

// The definition has the fields of the Go types and no others, and bounds every list, map and free text that people write.
func TestDefinitionHasTheFields(t *testing.T) {
	_, s, _ := definition(t)
	delete(s.Properties, "apiVersion")
	delete(s.Properties, "kind")
	s.Properties["metadata"] = nil
	compare(t, "", s, reflect.TypeFor[Queue]())
}

func compare(t *testing.T, path string, s *node, typ reflect.Type) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	kind := typ.Kind().String()
	switch {
	case s == nil:
		return
	case typ == reflect.TypeFor[apiresource.Quantity]():
		if !s.IntOrString || s.MaxLength == 0 {
			t.Errorf("%s: an amount is a bounded integer or string", path)
		}
		return
	case typ == reflect.TypeFor[metav1.Duration](), typ == reflect.TypeFor[metav1.Time]():
		kind = "string"
	case typ.Kind() == reflect.Struct:
		kind = "object"
		fields(t, path, s, typ)
	case typ.Kind() == reflect.Map:
		kind = "object"
		if s.MaxProperties == 0 {
			t.Errorf("%s: a map without a bound", path)
		}
		compare(t, path+"[]", s.AdditionalProperties, typ.Elem())
	case typ.Kind() == reflect.Slice:
		kind = "array"
		if s.MaxItems == 0 {
			t.Errorf("%s: a list without a bound", path)
		}
		compare(t, path+"[]", s.Items, typ.Elem())
	case typ.Kind() == reflect.Int64, typ.Kind() == reflect.Int32:
		kind = "integer"
	case typ.Kind() == reflect.String:
		if s.MaxLength == 0 && len(s.Enum) == 0 {
			t.Errorf("%s: a text without a bound", path)
		}
	}
	if s.Type != kind {
		t.Errorf("%s: type %q, want %q", path, s.Type, kind)
	}
}

func fields(t *testing.T, path string, s *node, typ reflect.Type) {
	t.Helper()
	have := make(map[string]reflect.Type)
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			have[name] = field.Type
		}
	}
	got, want := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(have))
	if !slices.Equal(got, want) {
		t.Errorf("%s: fields %v, want %v", path, got, want)
		return
	}
	for _, name := range want {
		compare(t, path+"."+name, s.Properties[name], have[name])
	}
}

// The values of the enumerations are the constants.
func TestDefinitionHasTheValues(t *testing.T) {
	_, s, _ := definition(t)
	spec := s.Properties["spec"].Properties
	for field, want := range map[string][]string{
		"sortPolicy": {string(SortPriorityFIFO), string(SortFIFO), string(SortFair), string(SortFairHistory), string(SortSmallestFirst)},
		"borrowing":  {string(Allowed), string(Never)},
		"reclaim":    {string(Allowed), string(Never)},
		"preemption": {string(PreemptLowerPriority), string(PreemptNever)},
	} {
		if !slices.Equal(spec[field].Enum, want) {
			t.Errorf("%s: %v, want %v", field, spec[field].Enum, want)
		}
	}
}

func fullQueue() *Queue {
	list := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": apiresource.MustParse(cpu)} }
	return &Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "q", Labels: map[string]string{"a": "b"}},
		Spec: QueueSpec{
			Parent: "p", Guaranteed: list("1"), Max: list("2"), Weight: 3, HistoryHalfLife: &metav1.Duration{Duration: 4},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		},
		Status: QueueStatus{Used: list("5"), Borrowed: list("6"), FairShare: list("7"), Conditions: []metav1.Condition{{Type: ConditionReady}}},
	}
}

func TestDeepCopySharesNothing(t *testing.T) {
	original := &QueueList{Items: []Queue{*fullQueue()}}
	copied, ok := original.DeepCopyObject().(*QueueList)
	if !ok || !reflect.DeepEqual(original, copied) {
		t.Fatalf("got %+v", copied)
	}
	q := &copied.Items[0]
	q.Labels["a"], q.Spec.HistoryHalfLife.Duration, q.Spec.NamespaceSelector.MatchLabels["a"], q.Status.Conditions[0].Type = "x", 1, "x", "x"
	for _, list := range []corev1.ResourceList{q.Spec.Guaranteed, q.Spec.Max, q.Status.Used, q.Status.Borrowed, q.Status.FairShare} {
		list["cpu"] = apiresource.MustParse("99")
	}
	if !reflect.DeepEqual(original.Items[0], *fullQueue()) {
		t.Errorf("the original changed: %+v", original.Items[0])
	}
	if (*Queue)(nil).DeepCopy() != nil {
		t.Error("the copy of nothing is something")
	}
}
