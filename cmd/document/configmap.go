package document

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Entry is a file in a ConfigMap, and where it begins in the ConfigMap's own text.
type Entry struct {
	Name, Text string
	// Line is that of the entry's first line, from 1; Indent is how many columns each of its lines is moved to the right.
	Line, Indent int
}

// ConfigMapEntries returns what the ConfigMaps of a text hold of YAML and JSON, and whether the text has a ConfigMap at all; other documents beside them are passed over.
// Places are right for texts written with "|", as the chart and kubectl write them; of others only the line at which they begin is known.
func ConfigMapEntries(text []byte) (entries []Entry, found bool) {
	lines := bytes.Split(text, []byte("\n"))
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	for {
		var node yamlv3.Node
		if err := decoder.Decode(&node); err != nil {
			return entries, found && errors.Is(err, io.EOF)
		}
		if len(node.Content) == 0 || scalar(node.Content[0], "kind") != "ConfigMap" {
			continue
		}
		found = true
		if data, _, _ := step(node.Content[0], "data"); data != nil && data.Kind == yamlv3.MappingNode {
			entries = append(entries, entriesOf(data, lines)...)
		}
	}
}

func entriesOf(data *yamlv3.Node, lines [][]byte) (entries []Entry) {
	for i := 0; i+1 < len(data.Content); i += 2 {
		name, value := data.Content[i].Value, resolved(data.Content[i+1])
		if value.Kind != yamlv3.ScalarNode || !slices.ContainsFunc([]string{".yaml", ".yml", ".json"}, func(end string) bool { return strings.HasSuffix(name, end) }) {
			continue
		}
		e := Entry{Name: name, Text: value.Value, Line: value.Line}
		if value.Style&yamlv3.LiteralStyle != 0 {
			e.Line++
			for n := e.Line - 1; n < len(lines); n++ { // the first line that is not empty tells the indent
				if trimmed := bytes.TrimLeft(lines[n], " "); len(trimmed) > 0 {
					e.Indent = len(lines[n]) - len(trimmed)
					break
				}
			}
		}
		entries = append(entries, e)
	}
	return entries
}

// scalar is the value of a field at the top; "" if there is none.
func scalar(n *yamlv3.Node, field string) string {
	if value, _, _ := step(n, field); value != nil {
		return value.Value
	}
	return ""
}
