package reference_test

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/deploy/crds"
	. "hilbert.dev/hilbert/internal/reference"
)

// definition is as much of a custom resource definition as api.md tells.
type definition struct {
	Spec struct {
		Group, Scope string
		Names        struct {
			Kind, Plural string
			ShortNames   []string
		}
		Versions []struct {
			Name   string
			Schema struct{ OpenAPIV3Schema *schema }
		}
	}
}

type schema struct {
	Type, Description, Format        string
	Properties                       map[string]*schema
	Items                            *schema
	AdditionalProperties             *schema
	Required, Enum                   []string
	Default                          any
	IntOrString                      bool `json:"x-kubernetes-int-or-string"`
	Minimum, Maximum                 *float64
	MaxLength, MaxItems, MinItems    *int
	MinProperties, MaxProperties     *int
	XKubernetesPreserveUnknownFields bool                       `json:"x-kubernetes-preserve-unknown-fields"`
	Validations                      []struct{ Message string } `json:"x-kubernetes-validations"`
}

// TestReferenceAPI holds api.md: the fields of the custom resources as the API server knows them. That the definitions have the fields of
// the Go types, and no others, is tested beside those.
func TestReferenceAPI(t *testing.T) {
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page := apiPage{T: t}
	for _, file := range files {
		text, err := fs.ReadFile(crds.Files, file)
		if err != nil {
			t.Fatal(err)
		}
		var d definition
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		page.kind(&d)
	}
	Hold(t, "api.md", "Custom resources", page.String())
}

type apiPage struct {
	*testing.T
	strings.Builder
}

func (p *apiPage) kind(d *definition) {
	s := d.Spec
	v := s.Versions[0]
	top := v.Schema.OpenAPIV3Schema
	short := ""
	if len(s.Names.ShortNames) > 0 {
		short = ", short " + Code(strings.Join(s.Names.ShortNames, ", "))
	}
	fmt.Fprintf(p, "## %s\n\n%s\n\n`apiVersion: %s/%s`, `kind: %s`; %s, plural %s%s.\n\n",
		s.Names.Kind, sentence(top.Description), s.Group, v.Name, s.Names.Kind, strings.ToLower(s.Scope), Code(s.Names.Plural), short)
	for _, part := range []string{"spec", "status"} {
		if top.Properties[part] != nil {
			fmt.Fprintf(p, "### %s %s\n\n", s.Names.Kind, part)
			if d := top.Properties[part].Description; d != "" {
				p.WriteString(sentence(d) + "\n\n")
			}
			p.WriteString(Table("field", "type", "what it is"))
			p.fields(part, top.Properties[part])
			p.WriteString("\n")
			p.rules(part, top.Properties[part])
		}
	}
}

func (p *apiPage) fields(path string, s *schema) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field, at := s.Properties[name], path+"."+name
		var notes []string
		if field.Description != "" {
			notes = append(notes, sentence(field.Description))
		}
		if slices.Contains(s.Required, name) {
			notes = append(notes, "Required.")
		}
		p.WriteString(Row(Code(at), kindOf(field), strings.Join(append(notes, bounds(field)...), " ")))
		for inner := field; inner != nil; {
			switch {
			case inner.Properties != nil:
				p.fields(at, inner)
				inner = nil
			case inner.Items != nil:
				inner, at = inner.Items, at+"[]"
			case inner.AdditionalProperties != nil:
				inner, at = inner.AdditionalProperties, at+".*"
			default:
				inner = nil
			}
		}
	}
}

// rules lists what the API server refuses beyond types and bounds.
func (p *apiPage) rules(path string, s *schema) {
	var messages []string
	var walk func(s *schema)
	walk = func(s *schema) {
		if s == nil {
			return
		}
		for _, v := range s.Validations {
			messages = append(messages, v.Message)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			walk(s.Properties[name])
		}
		walk(s.Items)
		walk(s.AdditionalProperties)
	}
	walk(s)
	if len(messages) > 0 {
		fmt.Fprintf(p, "The API server refuses a %s with:\n\n", path)
		for _, m := range messages {
			fmt.Fprintf(p, "- %s\n", m)
		}
		p.WriteString("\n")
	}
}

func kindOf(s *schema) string {
	switch {
	case s.IntOrString:
		return "quantity"
	case s.Items != nil:
		return "list of " + strings.TrimSuffix(kindOf(s.Items), "s") + "s"
	case s.AdditionalProperties != nil:
		return "map of string to " + kindOf(s.AdditionalProperties)
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

func bounds(s *schema) []string {
	var out []string
	if len(s.Enum) > 0 {
		out = append(out, "One of `"+strings.Join(s.Enum, "`, `")+"`.")
	}
	if s.Default != nil {
		out = append(out, fmt.Sprintf("Default `%v`.", s.Default))
	}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		out = append(out, number(*s.Minimum)+" to "+number(*s.Maximum)+".")
	case s.Minimum != nil:
		out = append(out, "At least "+number(*s.Minimum)+".")
	}
	for _, most := range []struct {
		n    *int
		what string
	}{{s.MaxItems, "entries"}, {s.MaxProperties, "keys"}, {s.MaxLength, "characters"}} {
		if most.n != nil {
			out = append(out, fmt.Sprintf("At most %d %s.", *most.n, most.what))
		}
	}
	return out
}

func sentence(text string) string { return strings.Join(strings.Fields(text), " ") }
