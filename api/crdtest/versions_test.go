package crdtest

import (
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/deploy/crds"
)

// conversions says what is wrong with a definition's versions, by ADR 0026.
func conversions(text []byte) (wrong []string) {
	var d struct {
		Spec struct {
			Conversion *struct{ Strategy string }
			Versions   []struct {
				Name    string
				Storage bool
				Schema  map[string]any
			}
		}
	}
	if err := yaml.Unmarshal(text, &d); err != nil {
		return []string{err.Error()}
	}
	if c := d.Spec.Conversion; c != nil && c.Strategy != "None" {
		wrong = append(wrong, "it converts by a "+c.Strategy)
	}
	stored := 0
	for i, v := range d.Spec.Versions {
		if v.Storage {
			stored++
		}
		if i > 0 && !reflect.DeepEqual(v.Schema, d.Spec.Versions[0].Schema) {
			wrong = append(wrong, v.Name+" has another schema than "+d.Spec.Versions[0].Name)
		}
	}
	if stored != 1 {
		wrong = append(wrong, fmt.Sprint(stored, " versions are stored"))
	}
	return wrong
}

// eachDefinition visits the files of deploy/crds.
func eachDefinition(t *testing.T, visit func(name string, text []byte)) {
	t.Helper()
	names, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil || len(names) < 3 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(crds.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		visit(name, text)
	}
}

func TestVersionsConvertThemselves(t *testing.T) {
	eachDefinition(t, func(name string, text []byte) {
		if wrong := conversions(text); len(wrong) > 0 {
			t.Errorf("%s: %v", name, wrong)
		}
	})
	for text, want := range map[string]string{
		"spec: {versions: [{name: a, storage: true, schema: {x: 1}}, {name: b, schema: {x: 1}}]}": "",
		"spec: {versions: [{name: a, storage: true, schema: {x: 1}}, {name: b, schema: {x: 2}}]}": "b has another schema than a",
		"spec: {versions: [{name: a, storage: true}, {name: b, storage: true}]}":                  "2 versions are stored",
		"spec: {conversion: {strategy: Webhook}, versions: [{name: a, storage: true}]}":           "it converts by a Webhook",
		"spec: {conversion: {strategy: None}, versions: [{name: a, storage: true}]}":              "",
	} {
		if got := strings.Join(conversions([]byte(text)), ", "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// zeros lists the numbers below a schema that may be 0.
func zeros(path string, s map[string]any) (found []string) {
	if kind := s["type"]; kind == "integer" || kind == "number" {
		least, bounded := s["minimum"].(float64)
		if !bounded || least < 0 || least == 0 && s["exclusiveMinimum"] != true {
			found = append(found, path)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if p, ok := properties[name].(map[string]any); ok {
			found = append(found, zeros(path+"."+name, p)...)
		}
	}
	for mark, word := range map[string]string{"[]": "items", "{}": "additionalProperties"} {
		if inner, ok := s[word].(map[string]any); ok {
			found = append(found, zeros(path+mark, inner)...)
		}
	}
	return found
}

// TestZeroIsZero: no number that people write is taken for "left out" when it is 0: 0 is refused, or it is in this list and means 0.
func TestZeroIsZero(t *testing.T) {
	meansZero := map[string][]string{
		"nodeconfiguration.yaml": {
			"spec.priority", "spec.rollout.gate.evictionsPerHundred", "spec.rollout.gate.runDelayPercent", "spec.rollout.gate.runDelaySlack", "spec.rollout.gate.unreadyPercent",
		},
		"resourcerequest.yaml": {"spec.asks[].release[]", "spec.asks[].retries"},
		"tidepool.yaml":        {"spec.headroomPercent", "spec.reserve.offline", "spec.reserve.online", "spec.slack"},
	}
	eachDefinition(t, func(name string, text []byte) {
		var d struct {
			Spec struct {
				Versions []struct {
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		for _, v := range d.Spec.Versions {
			properties, _ := v.Schema.OpenAPIV3Schema["properties"].(map[string]any)
			spec, _ := properties["spec"].(map[string]any)
			if got := zeros("spec", spec); !slices.Equal(got, meansZero[name]) {
				t.Errorf("%s: %v may be 0, want %v: bound them from below, or make them pointers and name them here", name, got, meansZero[name])
			}
		}
	})
	var s map[string]any
	text := "{properties: {a: {type: integer}, b: {type: array, items: {type: number, minimum: 0}}, c: {type: number, minimum: 0, exclusiveMinimum: true}, d: {type: integer, minimum: 1}}}"
	if err := yaml.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if got := zeros("x", s); !slices.Equal(got, []string{"x.a", "x.b[]"}) {
		t.Errorf("%v", got)
	}
}
