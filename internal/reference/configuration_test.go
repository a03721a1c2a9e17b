package reference_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"hilbert.dev/hilbert/api/spec"
	. "hilbert.dev/hilbert/internal/reference"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestReferenceConfiguration holds configuration.md: every field of spec.Configuration with the default that spec.Default gives it.
func TestReferenceConfiguration(t *testing.T) {
	source := Read(t, "api/spec")
	page := configurationPage{source: source, names: jsonPaths(reflect.TypeFor[spec.Configuration]())}
	page.section("", "", reflect.ValueOf(*spec.Default()))
	page.scores(Read(t, "schedule/place/rules"))
	Hold(t, "configuration.md", "Configuration of hilbertd", page.String())
	if len(page.missing) > 0 {
		t.Errorf("fields of the configuration without a comment of their own in api/spec: %s", strings.Join(page.missing, ", "))
	}
}

type configurationPage struct {
	strings.Builder
	source  *Source
	names   map[string]string
	missing []string
}

// section writes a table of a struct's own fields, and below it the sections of the structs among them. needs is the tag of the field that has the struct.
func (p *configurationPage) section(path, needs string, of reflect.Value) {
	if path == "" {
		p.WriteString("## The file\n\n")
	} else {
		fmt.Fprintf(p, "## %s\n\n%s%s\n\n", path, p.source.Prose(of.Type().Name(), p.source.Types[of.Type().Name()], p.names), needed("All of it", needs))
	}
	var below []func()
	var rows strings.Builder
	for _, field := range reflect.VisibleFields(of.Type()) {
		if field.Anonymous {
			continue // its fields follow
		}
		name := join(path, jsonName(field))
		value := reflect.Indirect(of.FieldByIndex(field.Index))
		if value.Kind() == reflect.Struct {
			below = append(below, func() { p.section(name, field.Tag.Get("needs"), value) })
			continue
		}
		rows.WriteString(p.row(owner(of.Type(), field), field, name, value))
		if field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct {
			for inner := range field.Type.Elem().Fields() {
				rows.WriteString(p.row(field.Type.Elem(), inner, name+"[]."+jsonName(inner), reflect.Value{}))
			}
		}
	}
	if rows.Len() > 0 {
		p.WriteString(Table("field", "type", "default", "what it does") + rows.String() + "\n")
	}
	for _, section := range below {
		section()
	}
}

// scores lists what scheduling.scores can weigh. What a score prefers stands above its function.
func (p *configurationPage) scores(source *Source) {
	p.WriteString("## Score functions\n\nThe names and default weights of `scheduling.scores`. A node's score is the weighted sum.\n\n")
	p.WriteString(Table("name", "kube-scheduler's plugin", "default weight", "the score of a node"))
	row := func(name, plugin string, weight int64, function any) {
		path := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
		function = path[strings.LastIndex(path, ".")+1:]
		p.WriteString(Row(Code(name), Code(plugin), strconv.FormatInt(weight, 10), source.Prose(function.(string), source.Funcs[function.(string)], nil)))
	}
	for _, s := range rules.LocalScores {
		row(s.Name, s.Plugin, s.Default, s.Score)
	}
	for _, s := range rules.NormalizedScores {
		row(s.Name, s.Plugin, s.Default, s.Raw)
	}
}

// owner is the struct in which a visible field is declared.
func owner(t reflect.Type, field reflect.StructField) reflect.Type {
	if last := len(field.Index) - 1; last > 0 {
		return t.FieldByIndex(field.Index[:last]).Type
	}
	return t
}

func (p *configurationPage) row(owner reflect.Type, field reflect.StructField, name string, value reflect.Value) string {
	doc := p.source.Fields[owner.Name()][field.Name]
	if doc == "" {
		p.missing = append(p.missing, owner.Name()+"."+field.Name)
	}
	return Row(Code(name), typeName(field.Type), Code(written(value)), p.source.Prose(field.Name, doc, p.names)+needed("It", field.Tag.Get("needs")))
}

// needed says what a tag `needs` says (api/spec/no_effect.go).
func needed(what, tag string) string {
	if tag == "" {
		return ""
	}
	var all []string
	for need := range strings.SplitSeq(tag, ",") {
		var any []string
		is, isNot := "is", "is not"
		for alternative := range strings.SplitSeq(need, "|") {
			path, value, valued := strings.Cut(alternative, "=")
			path, other := strings.CutSuffix(path, "!")
			if path == "roles" {
				is, isNot = "has", "does not have"
			}
			switch {
			case !valued:
				any = append(any, Code(path)+" is set")
			case other:
				any = append(any, Code(path)+" "+isNot+" "+Code(value))
			default:
				any = append(any, Code(path)+" "+is+" "+Code(value))
			}
		}
		all = append(all, strings.Join(any, " or "))
	}
	return " " + what + " has an effect only if " + strings.Join(all, ", and ") + "."
}

// written is a default as it would stand in the file; nothing where the zero value is what an empty file gives.
func written(value reflect.Value) string {
	if !value.IsValid() || value.Kind() == reflect.String && value.Len() == 0 || value.Kind() == reflect.Map && value.Len() == 0 ||
		value.Kind() == reflect.Slice && value.IsNil() {
		return ""
	}
	if d, ok := reflect.TypeAssert[spec.Duration](value); ok {
		text := d.D().String()
		if short, ok := strings.CutSuffix(text, "m0s"); ok {
			text = short + "m"
		}
		return text
	}
	text, err := json.Marshal(value.Interface())
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(strings.ReplaceAll(string(text), `"`, ""), ",", ", ")
}

func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[spec.Duration]():
		return "duration"
	case t.Kind() == reflect.Pointer:
		return typeName(t.Elem())
	case t.Kind() == reflect.Slice:
		return "list of " + strings.TrimSuffix(typeName(t.Elem()), "s") + "s"
	case t.Kind() == reflect.Map:
		return "map of " + typeName(t.Key()) + " to " + typeName(t.Elem())
	case t.Kind() == reflect.Struct:
		return "object"
	case t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.String:
		return "string"
	}
	return "integer"
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// jsonPaths maps what comments call fields to what people write in the file: "Units.Timeout" and "Scheduling.Units.Timeout" to
// "scheduling.units.timeout". Names of a single word that could be prose are left alone.
func jsonPaths(of reflect.Type) map[string]string {
	out := map[string]string{}
	var walk func(t reflect.Type, goPath []string, path string)
	walk = func(t reflect.Type, goPath []string, path string) {
		for field := range t.Fields() {
			if field.Anonymous {
				walk(field.Type, goPath, path)
				continue
			}
			name := join(path, jsonName(field))
			at := append(slices.Clip(goPath), field.Name)
			for i := range len(at) - 1 {
				out[strings.Join(at[i:], ".")] = name
			}
			if strings.IndexFunc(field.Name[1:], unicode.IsUpper) >= 0 {
				out[field.Name] = jsonName(field)
			}
			if field.Type.Kind() == reflect.Struct {
				walk(field.Type, at, name)
			}
		}
	}
	walk(of, nil, "")
	return out
}
