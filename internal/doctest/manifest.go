package doctest

import "strings"

// Documents splits a YAML text at its lines "---".
func Documents(text string) []string {
	var out []string
	for part := range strings.SplitSeq("\n"+text, "\n---") {
		if strings.TrimSpace(part) != "" {
			out = append(out, part)
		}
	}
	return out
}

// Complete makes a whole object of the fields that a page is about: of a pod's metadata and spec a Pod, of anything else hilbertd's
// configuration. An object that names its kind stays as it is.
func Complete(object map[string]any) {
	if object["kind"] != nil {
		return
	}
	spec, _ := object["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		object["apiVersion"], object["kind"] = "config.hilbert.dev/v1alpha1", "HilbertConfiguration"
		return
	}
	object["apiVersion"], object["kind"] = "v1", "Pod"
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	if metadata["name"] == nil {
		metadata["name"] = "shown"
	}
	object["metadata"] = metadata
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			for field, value := range map[string]any{"name": "main", "image": "registry.example.com/app"} {
				if c[field] == nil {
					c[field] = value
				}
			}
		}
	}
}
