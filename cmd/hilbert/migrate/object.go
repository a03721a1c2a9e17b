package migrate

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// object is one mapping of a document. It is edited in place, so that comments and the order of what is not changed survive. The zero object is a
// mapping that is not there: it has no fields, and deleting from it does nothing.
type object struct{ node *yaml.Node }

// field finds a key; i is its index in Content.
func (o object) field(key string) (i int, value *yaml.Node) {
	if o.node == nil || o.node.Kind != yaml.MappingNode {
		return -1, nil
	}
	for i := 0; i+1 < len(o.node.Content); i += 2 {
		if o.node.Content[i].Value == key {
			return i, resolve(o.node.Content[i+1])
		}
	}
	return -1, nil
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// at goes down to a mapping.
func (o object) at(path ...string) object {
	for _, key := range path {
		_, value := o.field(key)
		if value == nil || value.Kind != yaml.MappingNode {
			return object{}
		}
		o = object{value}
	}
	return o
}

// text is the value of a scalar field.
func (o object) text(key string) (string, bool) {
	_, value := o.field(key)
	if value == nil || value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
		return "", false
	}
	return value.Value, true
}

// line is the line of a key in the input.
func (o object) line(key string) int {
	if i, value := o.field(key); value != nil {
		return o.node.Content[i].Line
	}
	return 0
}

// list is the mappings of a sequence.
func (o object) list(key string) []object {
	_, value := o.field(key)
	if value == nil || value.Kind != yaml.SequenceNode {
		return nil
	}
	var out []object
	for _, n := range value.Content {
		if n = resolve(n); n.Kind == yaml.MappingNode {
			out = append(out, object{n})
		}
	}
	return out
}

// keys are the fields' names.
func (o object) keys() []string {
	if o.node == nil || o.node.Kind != yaml.MappingNode {
		return nil
	}
	var out []string
	for i := 0; i+1 < len(o.node.Content); i += 2 {
		out = append(out, o.node.Content[i].Value)
	}
	return out
}

// remove deletes a field.
func (o object) remove(key string) {
	if i, value := o.field(key); value != nil {
		o.node.Content = append(o.node.Content[:i], o.node.Content[i+2:]...)
	}
}

// set writes a text. What is no text to YAML, such as true or 4, is quoted.
func (o object) set(key, value string) {
	o.put(key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value})
}

// put writes any value, in the place of the old one if there is one.
func (o object) put(key string, value *yaml.Node) {
	if i, old := o.field(key); old != nil {
		o.node.Content[i+1] = value
		return
	}
	o.node.Content = append(o.node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

// make goes down to a mapping, and adds what is missing.
func (o object) make(path ...string) object {
	for _, key := range path {
		next := o.at(key)
		if next.node == nil {
			next = object{&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}}
			o.put(key, next.node)
		}
		o = next
	}
	return o
}

// prune removes a mapping that has become empty.
func (o object) prune(key string) {
	if _, value := o.field(key); value != nil && value.Kind == yaml.MappingNode && len(value.Content) == 0 {
		o.remove(key)
	}
}

// group is the API group of an apiVersion, "" for the core.
func group(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// encode writes any value as a YAML node. The values are ours, so that it cannot fail.
func encode(value any) *yaml.Node {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		panic(err)
	}
	return &n
}
