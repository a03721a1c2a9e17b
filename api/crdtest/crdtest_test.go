package crdtest

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// errorsOf takes down what Compare finds.
type errorsOf struct {
	testing.TB
	found []string
}

func (e *errorsOf) Helper() {}
func (e *errorsOf) Errorf(format string, a ...any) {
	e.found = append(e.found, fmt.Sprintf(format, a...))
}

type amount struct{}

type branch struct {
	Name     string   `json:"name"`
	Children []branch `json:"children,omitempty"`
}

type inline struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

type thing struct {
	inline `json:",inline"`
	Meta   struct{} `json:"metadata,omitzero"`
	Spec   struct {
		Text  string            `json:"text"`
		Count int64             `json:"count"`
		Part  *float64          `json:"part,omitempty"`
		Yes   bool              `json:"yes,omitempty"`
		Map   map[string]string `json:"map,omitempty"`
		List  []string          `json:"list,omitempty"`
		When  time.Time         `json:"when,omitzero"`
		Size  amount            `json:"size,omitzero"`
		Tree  *branch           `json:"tree,omitempty"`
	} `json:"spec"`
}

func schema() *Schema {
	zero := 0.0
	text := func() *Schema { return &Schema{Type: "string", MaxLength: 5} }
	number := func(kind string) *Schema { return &Schema{Type: kind, Minimum: &zero, Maximum: &zero} }
	leaf := &Schema{Type: "object", Required: []string{"name"}, Properties: map[string]*Schema{"name": text()}}
	return &Schema{Type: "object", Required: []string{"spec"}, Properties: map[string]*Schema{
		"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"},
		"spec": {Type: "object", Required: []string{"text", "count"}, Properties: map[string]*Schema{
			"text": text(), "count": number("integer"), "part": number("number"), "yes": {Type: "boolean"}, "when": {Type: "string"},
			"map": {Type: "object", MaxProperties: 1, AdditionalProperties: text()}, "list": {Type: "array", MaxItems: 1, Items: text()},
			"size": {IntOrString: true, MaxLength: 5},
			"tree": {Type: "object", Required: []string{"name"}, Properties: map[string]*Schema{
				"name": text(), "children": {Type: "array", MaxItems: 1, Items: leaf},
			}},
		}},
	}}
}

// Each way in which a definition can differ is found, and nothing else is.
func TestCompare(t *testing.T) {
	rules := Rules{
		Texts: []reflect.Type{reflect.TypeFor[time.Time]()}, Amounts: []reflect.Type{reflect.TypeFor[amount]()},
		Ends: map[string]string{".spec.tree.children[]": "children"},
	}
	for want, spoil := range map[string]func(s map[string]*Schema, r *Rules){
		"": func(map[string]*Schema, *Rules) {},
		".spec: fields [count list map part size text tree when], want [count list map part size text tree when yes]": func(s map[string]*Schema, _ *Rules) { delete(s, "yes") },
		".spec.text: type \"integer\", want \"string\"":                                                               func(s map[string]*Schema, _ *Rules) { s["text"].Type = "integer" },
		".spec.text: a text without a bound":                                                                          func(s map[string]*Schema, _ *Rules) { s["text"].MaxLength = 0 },
		".spec.count: a number without a bound":                                                                       func(s map[string]*Schema, _ *Rules) { s["count"].Maximum = nil },
		".spec.count: the API server cannot compare with a maximum of 9.223372036854776e+18, and refuses every object": func(s map[string]*Schema, _ *Rules) {
			most := float64(math.MaxInt64)
			s["count"].Maximum = &most
		},
		".spec.part: a number without a bound":                       func(s map[string]*Schema, _ *Rules) { s["part"].Minimum = nil },
		".spec.map: a map without a bound":                           func(s map[string]*Schema, _ *Rules) { s["map"].MaxProperties = 0 },
		".spec.map[]: a text without a bound":                        func(s map[string]*Schema, _ *Rules) { s["map"].AdditionalProperties.MaxLength = 0 },
		".spec.list: a list without a bound":                         func(s map[string]*Schema, _ *Rules) { s["list"].MaxItems = 0 },
		".spec.list[]: type \"boolean\", want \"string\"":            func(s map[string]*Schema, _ *Rules) { s["list"].Items.Type = "boolean" },
		".spec.size: an amount is a bounded integer or string":       func(s map[string]*Schema, _ *Rules) { s["size"].MaxLength = 0 },
		".spec.when: type \"\", want \"object\"":                     func(s map[string]*Schema, r *Rules) { s["when"].Type, r.Texts = "", nil },
		".spec.tree.name is always written, but not required":        func(s map[string]*Schema, _ *Rules) { s["tree"].Required = nil },
		".spec.tree.children[]: fields [name], want [children name]": func(_ map[string]*Schema, r *Rules) { r.Ends = nil },
		".spec.tree.children[]: fields [children name], want [name]": func(s map[string]*Schema, _ *Rules) {
			s["tree"].Properties["children"].Items.Properties["children"] = &Schema{}
		},
		".spec.tree.children[].name: type \"object\", want \"string\"": func(s map[string]*Schema, _ *Rules) {
			s["tree"].Properties["children"].Items.Properties["name"].Type = "object"
		},
		".spec.yes: type \"string\", want \"boolean\"": func(s map[string]*Schema, _ *Rules) { s["yes"].Type = "string" },
	} {
		d, r, e := &Definition{Schema: schema()}, rules, &errorsOf{TB: t}
		spoil(d.Schema.Properties["spec"].Properties, &r)
		d.Compare(e, reflect.TypeFor[thing](), r)
		if want == "" && len(e.found) != 0 || want != "" && !slices.Contains(e.found, want) {
			t.Errorf("found\n%s\nwant %q", strings.Join(e.found, "\n"), want)
		}
	}
}

// What only people write may be laxer, and a number that nobody bounds is named.
func TestCompareLeniently(t *testing.T) {
	d := &Definition{Schema: schema()}
	s := d.Schema.Properties["spec"].Properties
	s["count"].Maximum, s["tree"].Required = nil, nil
	r := Rules{
		Texts: []reflect.Type{reflect.TypeFor[time.Time]()}, Amounts: []reflect.Type{reflect.TypeFor[amount]()},
		Ends: map[string]string{".spec.tree.children[]": "children"}, Free: []string{".spec.count"},
	}
	e := &errorsOf{TB: t}
	d.Compare(e, reflect.TypeFor[thing](), r)
	if want := []string{".spec.tree.name is always written, but not required"}; !slices.Equal(e.found, want) {
		t.Errorf("found %v", e.found)
	}
	r.Lenient, r.Free = true, nil
	d.Compare(t, reflect.TypeFor[thing](), r)
}

// The files of deploy/crds are read as they are.
func TestRead(t *testing.T) {
	d := Read(t, "customnoderesource.yaml")
	if d.Kind != "CustomNodeResource" || d.Version == "" || !d.Status || len(d.Columns) == 0 || len(d.ShortNames) == 0 {
		t.Errorf("%+v", d)
	}
	if keys := slices.Sorted(maps.Keys(d.Schema.Properties)); !slices.Equal(keys, []string{"apiVersion", "kind", "metadata", "spec", "status"}) {
		t.Errorf("properties %v", keys)
	}
}
