// Package document knows where each field of a YAML or JSON file stands, so that messages about a file name line, column and field, and the word that was probably meant.
//
// Data flow: Parse makes a tree of the text; Check compares it with the Go type that the text is decoded into, and Locate puts a place before an error that names its
// field. For example, Check of "logging: {levle: info}" says: line 1, column 11: unknown field "logging.levle"; did you mean "level"?
//
// Invariants: places count lines and columns from 1; Check refuses nothing that a strict decoder takes: each value is tried with the decoder itself, so that types
// with a form of their own (durations) count as they do when the file is read. Check tells every mistake, not the first alone.
//
// It decodes nothing for use, and judges no value: its callers do.
package document

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/internal/nearest"
)

// maxDepth bounds how deep a file's values may lie in one another; no configuration comes near.
const maxDepth = 64

// Document is one text as a tree.
type Document struct{ root *yamlv3.Node }

// Problem is one mistake in a file and where it stands.
type Problem struct {
	Line, Column int
	// Field is the field's path, such as scheduling.profiles[0].name; "" is the file itself.
	Field   string
	Message string
}

// Error says where the mistake is and what it is.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Message)
}

// ReadAtMost reads a file of that name that is not too large, in bytes.
func ReadAtMost(r io.Reader, name string, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes; is it the right file?", name, most)
	}
	return data, err
}

// Parse reads a text that has one document; an empty one is allowed.
func Parse(text []byte) (*Document, error) {
	decoder := yamlv3.NewDecoder(strings.NewReader(string(text)))
	d := &Document{root: &yamlv3.Node{}}
	var node yamlv3.Node
	switch err := decoder.Decode(&node); {
	case errors.Is(err, io.EOF):
		return d, nil
	case err != nil:
		return nil, err
	}
	if len(node.Content) > 0 {
		d.root = node.Content[0]
	}
	var second yamlv3.Node
	if err := decoder.Decode(&second); err == nil {
		return nil, &Problem{Line: second.Line, Column: max(second.Column, 1), Message: "a second document begins here, and would be passed over; write one document in a file"}
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return d, nil
}

// Check compares the text with the type of what it is decoded into, and returns every mistake.
func (d *Document) Check(into reflect.Type) []*Problem {
	if d.root.Kind == 0 {
		return nil
	}
	c := &checker{}
	c.value(d.root, into, "", 0)
	return c.problems
}

// Place is where a field stands. A field that is not in the text is told by the nearest object around it that is; exact says which.
func (d *Document) Place(field string) (line, column int, exact bool) {
	at, key := d.root, d.root
	rest := field
	for rest != "" {
		at = resolved(at)
		next, nextKey, after := step(at, rest)
		if next == nil {
			return key.Line, key.Column, false
		}
		at, key, rest = next, nextKey, after
	}
	return key.Line, key.Column, true
}

// Locate returns the problem that an error about a field is.
func (d *Document) Locate(field, message string) *Problem {
	line, column, _ := d.Place(field)
	return &Problem{Line: line, Column: column, Field: field, Message: message}
}

// step goes one field or one index down. Keys may have dots in them: the longest that fits counts.
func step(at *yamlv3.Node, rest string) (next, key *yamlv3.Node, after string) {
	if at.Kind == yamlv3.SequenceNode {
		var i int
		if n, err := fmt.Sscanf(rest, "[%d]", &i); n != 1 || err != nil || i < 0 || i >= len(at.Content) {
			return nil, nil, ""
		}
		return at.Content[i], at.Content[i], strings.TrimPrefix(rest[strings.IndexByte(rest, ']')+1:], ".")
	}
	if at.Kind != yamlv3.MappingNode {
		return nil, nil, ""
	}
	length := -1
	for i := 0; i+1 < len(at.Content); i += 2 {
		k := at.Content[i].Value
		below, ok := strings.CutPrefix(rest, k)
		if ok && len(k) > length && (below == "" || below[0] == '.' || below[0] == '[') {
			next, key, after, length = at.Content[i+1], at.Content[i], strings.TrimPrefix(below, "."), len(k)
		}
	}
	return next, key, after
}

func resolved(n *yamlv3.Node) *yamlv3.Node {
	if n.Kind == yamlv3.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// checker collects the mistakes.
type checker struct{ problems []*Problem }

func (c *checker) bad(n *yamlv3.Node, field, format string, args ...any) {
	c.problems = append(c.problems, &Problem{Line: n.Line, Column: n.Column, Field: field, Message: fmt.Sprintf(format, args...)})
}

var (
	jsonForm = reflect.TypeFor[json.Unmarshaler]()
	textForm = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (c *checker) value(n *yamlv3.Node, t reflect.Type, field string, depth int) {
	n = resolved(n)
	if depth > maxDepth {
		c.bad(n, field, "%s: it lies deeper than %d levels", field, maxDepth)
		return
	}
	if n.Kind == yamlv3.ScalarNode && n.Tag == "!!null" {
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	own := reflect.PointerTo(t).Implements(jsonForm) || reflect.PointerTo(t).Implements(textForm)
	switch kind := t.Kind(); {
	case own || kind == reflect.Interface:
		c.leaf(n, t, field)
	case kind == reflect.Struct:
		c.object(n, t, field, depth)
	case kind == reflect.Map && c.is(n, yamlv3.MappingNode, field, "an object"):
		for i := 0; i+1 < len(n.Content); i += 2 {
			c.value(n.Content[i+1], t.Elem(), join(field, n.Content[i].Value), depth+1)
		}
		c.twice(n, field)
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && c.is(n, yamlv3.SequenceNode, field, "a list"):
		for i, item := range n.Content {
			c.value(item, t.Elem(), fmt.Sprintf("%s[%d]", field, i), depth+1)
		}
	case kind != reflect.Map && kind != reflect.Slice:
		c.leaf(n, t, field)
	}
}

func (c *checker) is(n *yamlv3.Node, kind yamlv3.Kind, field, want string) bool {
	if n.Kind != kind {
		c.bad(n, field, "%swant %s, not %s", prefix(field), want, described(n))
	}
	return n.Kind == kind
}

func (c *checker) object(n *yamlv3.Node, t reflect.Type, field string, depth int) {
	if !c.is(n, yamlv3.MappingNode, field, "an object with fields") {
		return
	}
	fields := Fields(t)
	c.twice(n, field)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			c.value(value, t, field, depth+1)
			continue
		}
		inner, ok := fields[key.Value]
		if !ok {
			c.bad(key, join(field, key.Value), "unknown field %q%s", join(field, key.Value), nearest.Hint(key.Value, sortedKeys(fields)))
			continue
		}
		c.value(value, inner, join(field, key.Value), depth+1)
	}
}

// twice tells the keys that stand in an object already.
func (c *checker) twice(n *yamlv3.Node, field string) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if line, ok := first[key.Value]; ok && key.Tag != "!!merge" {
			c.bad(key, join(field, key.Value), "%q already set in line %d; leave one out", join(field, key.Value), line)
			continue
		}
		first[key.Value] = key.Line
	}
}

// leaf tries a value with the decoder that will read it.
func (c *checker) leaf(n *yamlv3.Node, t reflect.Type, field string) {
	text, err := yamlv3.Marshal(n)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		c.bad(n, field, "%swant %s, not %s", prefix(field), wanted(t), described(n))
	default:
		c.bad(n, field, "%s%v", prefix(field), err)
	}
}

// described is a value in words.
func described(n *yamlv3.Node) string {
	const most = 40
	switch n.Kind {
	case yamlv3.MappingNode:
		return "an object"
	case yamlv3.SequenceNode:
		return "a list"
	case yamlv3.ScalarNode, yamlv3.DocumentNode, yamlv3.AliasNode:
	}
	text := n.Value
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	if n.Tag == "!!str" {
		return fmt.Sprintf("the text %q", text)
	}
	return text
}

// wanted is a type in words.
func wanted(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "a text"
	case t.Kind() == reflect.Float64, t.Kind() == reflect.Float32:
		return "a number"
	case t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uintptr:
		return "an integer of at least 0"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64:
		return "an integer"
	}
	return "another kind of value"
}

// Fields are the names by which a struct's fields are written, with their types; those of structs without a name of their own count as the struct's.
func Fields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			for k, v := range Fields(inner) {
				if _, ok := out[k]; !ok {
					out[k] = v
				}
			}
		case name == "":
			out[f.Name] = f.Type
		default:
			out[name] = f.Type
		}
	}
	return out
}

func sortedKeys(fields map[string]reflect.Type) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

func prefix(field string) string {
	if field == "" {
		return ""
	}
	return field + ": "
}
