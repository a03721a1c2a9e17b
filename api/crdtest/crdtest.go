// Package crdtest compares a custom resource definition with the Go types that it stands for.
//
// Data flow: Read decodes a file of deploy/crds; Compare walks its schema beside a Go type, by the names that encoding/json would use, and
// reports each difference as an error of the test. What one definition says beyond that (enumerations, bounds that are constants) its own test
// asks of the Schema.
//
// Invariants: a definition has the fields of the type and no others; whatever is always written is required, for a reader must not take what was
// never said for zero; every list, map, number and text has a bound, for the API server keeps what anybody sends. It checks no rules in CEL and no
// defaults: a real API server does.
package crdtest

import (
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/deploy/crds"
)

// Definition is what a test asks of a custom resource definition. It has one version.
type Definition struct {
	Name, Group, Scope, Kind, Plural, Version string
	ShortNames                                []string
	Columns                                   []string // that kubectl get shows without -o wide
	Status                                    bool     // it has a status subresource
	Schema                                    *Schema
}

// Schema is as much of an OpenAPI schema as is compared.
type Schema struct {
	Properties           map[string]*Schema
	Items                *Schema
	AdditionalProperties *Schema
	Required             []string
	Enum                 []string
	Type                 string
	IntOrString          bool `json:"x-kubernetes-int-or-string"`
	Open                 bool `json:"x-kubernetes-preserve-unknown-fields"`
	MaxItems             int
	MaxProperties        int
	MaxLength            int
	Minimum, Maximum     *float64
}

// maxExact is up to where JSON numbers are exact. The API server reads bounds as such, and the largest int64 is beyond all int64 then.
const maxExact = 1 << 53

// Read decodes a file of deploy/crds by its name.
func Read(t testing.TB, file string) *Definition {
	t.Helper()
	text, err := fs.ReadFile(crds.Files, file)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Metadata struct{ Name string }
		Spec     struct {
			Group, Scope string
			Names        struct {
				Kind, Plural string
				ShortNames   []string
			}
			Versions []struct {
				Name                     string
				Subresources             map[string]any
				AdditionalPrinterColumns []struct {
					Name     string
					Priority int
				}
				Schema struct{ OpenAPIV3Schema *Schema }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil || len(crd.Spec.Versions) != 1 {
		t.Fatalf("%s: %d versions, %v", file, len(crd.Spec.Versions), err)
	}
	v := crd.Spec.Versions[0]
	d := &Definition{
		Name: crd.Metadata.Name, Group: crd.Spec.Group, Scope: crd.Spec.Scope, Kind: crd.Spec.Names.Kind, Plural: crd.Spec.Names.Plural,
		Version: v.Name, ShortNames: crd.Spec.Names.ShortNames, Schema: v.Schema.OpenAPIV3Schema,
	}
	for _, c := range v.AdditionalPrinterColumns {
		if c.Priority == 0 {
			d.Columns = append(d.Columns, c.Name)
		}
	}
	_, d.Status = v.Subresources["status"]
	return d
}

// Rules are what Compare cannot see in the types.
type Rules struct {
	// Texts are types that are written as text of a known length; Amounts are written as a bounded integer or text.
	Texts, Amounts []reflect.Type
	// Trees are types that are written as an object whose fields the definition leaves open.
	Trees []reflect.Type
	// Ends has, by path, a field of a type that contains itself with which the definition ends: ".spec.tree[]": "children".
	Ends map[string]string
	// Free are paths of numbers that nobody bounds.
	Free []string
	// Lenient: what is always written need not be required, nor a number bounded. For objects that only people write.
	Lenient bool
}

// Compare reports where the definition differs from the type of its objects.
func (d *Definition) Compare(t testing.TB, of reflect.Type, r Rules) {
	t.Helper()
	top := *d.Schema
	top.Properties = maps.Clone(top.Properties)
	top.Properties["metadata"] = nil // the API server's own
	c := comparison{t, r}
	c.compare("", &top, of)
}

type comparison struct {
	testing.TB
	rules Rules
}

func (c *comparison) compare(path string, s *Schema, typ reflect.Type) {
	c.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case s == nil:
	case slices.Contains(c.rules.Amounts, typ):
		if !s.IntOrString || s.MaxLength == 0 {
			c.Errorf("%s: an amount is a bounded integer or string", path)
		}
	case slices.Contains(c.rules.Texts, typ):
		c.is(path, s, "string")
	case slices.Contains(c.rules.Trees, typ):
		if c.is(path, s, "object"); !s.Open {
			c.Errorf("%s: its fields are not left open", path)
		}
	case typ.Kind() == reflect.Struct:
		c.is(path, s, "object")
		c.fields(path, s, typ)
	case typ.Kind() == reflect.Map:
		c.is(path, s, "object")
		c.bound(path, "map", s.MaxProperties != 0)
		c.compare(path+"[]", s.AdditionalProperties, typ.Elem())
	case typ.Kind() == reflect.Slice:
		c.is(path, s, "array")
		c.bound(path, "list", s.MaxItems != 0)
		c.compare(path+"[]", s.Items, typ.Elem())
	default:
		c.scalar(path, s, typ)
	}
}

func (c *comparison) scalar(path string, s *Schema, typ reflect.Type) {
	c.Helper()
	bounded := c.rules.Lenient || slices.Contains(c.rules.Free, path) || s.Minimum != nil && s.Maximum != nil
	switch typ.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		c.is(path, s, "integer")
		c.bound(path, "number", bounded)
		if s.Maximum != nil && *s.Maximum > maxExact {
			c.Errorf("%s: the API server cannot compare with a maximum of %g, and refuses every object", path, *s.Maximum)
		}
	case reflect.Float64:
		c.is(path, s, "number")
		c.bound(path, "number", bounded)
	case reflect.Bool:
		c.is(path, s, "boolean")
	case reflect.String:
		c.is(path, s, "string")
		c.bound(path, "text", s.MaxLength != 0 || len(s.Enum) != 0)
	default:
		c.Errorf("%s: a %v is not known here", path, typ)
	}
}

func (c *comparison) is(path string, s *Schema, kind string) {
	c.Helper()
	if s.Type != kind {
		c.Errorf("%s: type %q, want %q", path, s.Type, kind)
	}
}

func (c *comparison) bound(path, what string, bounded bool) {
	c.Helper()
	if !bounded {
		c.Errorf("%s: a %s without a bound", path, what)
	}
}

func (c *comparison) fields(path string, s *Schema, typ reflect.Type) {
	c.Helper()
	have := make(map[string]reflect.Type)
	var always []string
	collect(typ, have, &always)
	delete(have, c.rules.Ends[path])
	got, want := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(have))
	if !slices.Equal(got, want) {
		c.Errorf("%s: fields %v, want %v", path, got, want)
		return
	}
	for _, name := range always {
		if !c.rules.Lenient && !slices.Contains(s.Required, name) {
			c.Errorf("%s.%s is always written, but not required", path, name)
		}
	}
	for _, name := range want {
		if path == "" && (name == "apiVersion" || name == "kind") {
			continue // the API server's own
		}
		c.compare(path+"."+name, s.Properties[name], have[name])
	}
}

// collect finds the fields of a type and of what it embeds, and those of them that are never left out.
func collect(typ reflect.Type, have map[string]reflect.Type, always *[]string) {
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name != "":
			have[name] = field.Type
			if !strings.Contains(options, "omit") {
				*always = append(*always, name)
			}
		case options == "inline":
			collect(field.Type, have, always)
		}
	}
}
