package spec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// NodeParameters are what of a Node's configuration may change while its agent runs: the parameters of every law, and what is reported of use. The fields are those of the file, at the same paths.
type NodeParameters struct {
	Lending      LendingParameters `json:"lending,omitzero"`
	CPU          NodeCPU           `json:"cpu,omitzero"`
	CPUBurst     CPUBurst          `json:"cpuBurst,omitzero"`
	Memory       NodeMemory        `json:"memory,omitzero"`
	Eviction     NodeEviction      `json:"eviction,omitzero"`
	Usage        Usage             `json:"usage,omitzero"`
	Interference NodeInterference  `json:"interference,omitzero"`
	Overcommit   NodeOvercommit    `json:"overcommit,omitzero"`
	// QuietCPUs is about dedicated pods.
	QuietCPUs QuietCPUs `json:"quietCPUs,omitzero"`
	// MemoryBandwidth is about what is read through resctrl.
	MemoryBandwidth NodeMemoryBandwidth `json:"memoryBandwidth,omitzero"`
}

// Parameters are the node's parameters.
func (n *Node) Parameters() NodeParameters {
	return NodeParameters{
		Lending: n.Lending.LendingParameters, CPU: n.CPU, CPUBurst: n.CPUBurst, Memory: n.Memory, Eviction: n.Eviction, Usage: n.Usage, Interference: n.Interference, Overcommit: n.Overcommit,
		QuietCPUs: n.QuietCPUs, MemoryBandwidth: n.MemoryBandwidth,
	}
}

// SetParameters replaces the node's parameters.
func (n *Node) SetParameters(p *NodeParameters) {
	n.Lending.LendingParameters, n.CPU, n.CPUBurst = p.Lending, p.CPU, p.CPUBurst
	n.Memory, n.Eviction, n.Usage = p.Memory, p.Eviction, p.Usage
	n.Interference, n.Overcommit, n.QuietCPUs = p.Interference, p.Overcommit, p.QuietCPUs
	n.MemoryBandwidth = p.MemoryBandwidth
}

// +kubebuilder:object:generate=true

// WrittenParameters are fields of NodeParameters as somebody wrote them, in JSON: those that are there take the place of what the node's file says, and a 0 that is
// there means 0. For example
//
//	{"lending": {"targetUtilization": 60}}
//
// changes one field, and leaves all others as the node has them. Empty is the same as {}.
type WrittenParameters []byte

// MarshalJSON writes them as they are.
func (w WrittenParameters) MarshalJSON() ([]byte, error) {
	if len(w) == 0 {
		return []byte("{}"), nil
	}
	return w, nil
}

// UnmarshalJSON keeps them as they are.
func (w *WrittenParameters) UnmarshalJSON(data []byte) error {
	*w = slices.Clone(data)
	return nil
}

// MaxWrittenParameters bounds WrittenParameters, in bytes: each node's report carries them.
const MaxWrittenParameters = 16 << 10

// Canonical is the same in a form that depends on the values alone, and not on the order of fields or on spaces.
func (w WrittenParameters) Canonical() (WrittenParameters, error) {
	tree, err := w.tree()
	if err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

// tree decodes them.
func (w WrittenParameters) tree() (map[string]any, error) {
	if len(w) > MaxWrittenParameters {
		return nil, &FieldError{Field: "node", Err: fmt.Errorf("%d bytes of parameters; write at most %d", len(w), MaxWrittenParameters)}
	}
	tree := map[string]any{}
	if len(w) == 0 {
		return tree, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(w))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, &FieldError{Field: "node", Err: fmt.Errorf("not an object in JSON: %w", err)}
	}
	if decoder.More() {
		return nil, &FieldError{Field: "node", Err: errors.New("more than one object in JSON")}
	}
	if tree == nil {
		tree = map[string]any{}
	}
	return tree, nil
}

// Hash names the parameters: equal ones have the same, whatever the order of their fields. Parameters that are no JSON have one too.
func (w WrittenParameters) Hash() string {
	text, err := w.Canonical()
	if err != nil {
		text = w
	}
	return hashOf(text)
}

func hashOf(text []byte) string {
	const length = 16 // of 64: a name, not a signature
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:length]
}

// On returns a node's configuration, which has its defaults set, with these parameters in their place. The error names every mistake: fields that are not known, and what
// CheckNode finds. The agent calls it with the node's file, the controller with the defaults.
func (w WrittenParameters) On(n *Node) (Node, error) {
	tree, err := w.tree()
	if err != nil {
		return Node{}, err
	}
	var errs []error
	unknownFields("node", tree, reflect.TypeFor[NodeParameters](), collector(&errs))
	if err := errors.Join(errs...); err != nil {
		return Node{}, err
	}
	p := n.Parameters()
	forgetLists(&p.Lending, tree)
	if len(w) > 0 {
		if err := json.Unmarshal(w, &p); err != nil {
			field := "node"
			if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
				field += "." + wrong.Field
				err = fmt.Errorf("%s: want a value of type %v", wrong.Value, wrong.Type)
			}
			return Node{}, &FieldError{Field: field, Err: err}
		}
	}
	out := *n
	out.SetParameters(&p)
	return out, CheckNode(&out)
}

// forgetLists takes lists of the file away that a tree replaces. Decoding into them would write to the file's, and leave fields of their elements where new ones say nothing.
func forgetLists(p *LendingParameters, tree map[string]any) {
	io := &p.IO
	lending, _ := tree["lending"].(map[string]any)
	written, _ := lending["io"].(map[string]any)
	if _, ok := written["costDevices"]; ok {
		io.CostDevices = nil
	}
	if _, ok := written["disks"]; ok {
		io.Disks = nil
	}
	if _, ok := written["ceilings"]; ok {
		io.Ceilings = nil
	}
	written, _ = lending["network"].(map[string]any)
	if _, ok := written["uplinks"]; ok {
		p.Network.Uplinks = nil
	}
}

// unknownFields reports the fields of a tree that a type does not have under exactly this name: encoding/json would also take another case.
func unknownFields(at string, value any, t reflect.Type, bad report) {
	switch value := value.(type) {
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return // decoding says what is wanted
		}
		fields := fieldsOf(t)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			field, known := fields[name]
			if why := Removed(at + "." + name); !known && why != "" {
				bad(at+"."+name, "%s", why)
				continue
			}
			if !known {
				bad(at+"."+name, "%w", &ValueError{Value: name, Known: slices.Sorted(maps.Keys(fields))})
				continue
			}
			unknownFields(at+"."+name, value[name], field, bad)
		}
	case []any:
		if t.Kind() == reflect.Slice {
			for i := range value {
				unknownFields(fmt.Sprintf("%s[%d]", at, i), value[i], t.Elem(), bad)
			}
		}
	}
}

// fieldsOf are the types of a struct's fields, and of what it embeds, by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := make(map[string]reflect.Type)
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			out[name] = field.Type
		}
	}
	return out
}
