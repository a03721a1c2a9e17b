package configfile

import (
	"fmt"
	"reflect"

	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/document"
)

// IsNodeConfiguration reports whether a text says that it is a NodeConfiguration.
func IsNodeConfiguration(data []byte) bool {
	var said struct{ Kind string }
	return yaml.Unmarshal(data, &said) == nil && said.Kind == spec.NodeConfigurationKind
}

// ParseNodeConfiguration reads a manifest of a NodeConfiguration, and checks it as the controller role does: its parameters over an agent's defaults. The error names every
// mistake, with its line and column.
func ParseNodeConfiguration(data []byte) (*v1alpha1.NodeConfiguration, error) {
	text, err := document.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	if problems := text.Check(reflect.TypeFor[v1alpha1.NodeConfiguration]()); len(problems) > 0 {
		return nil, &Mistakes{problems}
	}
	c := &v1alpha1.NodeConfiguration{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	var problems []*document.Problem
	if want := v1alpha1.GroupVersion.String(); c.APIVersion != want {
		problems = append(problems, text.Locate("apiVersion", fmt.Sprintf("apiVersion: %q is not known; write %s", c.APIVersion, want)))
	}
	if c.Name == "" {
		problems = append(problems, text.Locate("metadata.name", "metadata.name: it is empty; write a name"))
	}
	if len(problems) > 0 {
		return nil, &Mistakes{problems}
	}
	if err := spec.ValidateNodeConfiguration(&c.Spec); err != nil {
		return nil, located(text, "spec.", err)
	}
	return c, nil
}
