package explain

import (
	"testing"

	"hilbert.dev/hilbert/api/spec"
)

// TestConfigured: what a node was told, and what its agent says of it, in words.
func TestConfigured(t *testing.T) {
	told := &spec.WantedConfiguration{Name: "web", Revision: "r2", Hash: "h2", Parameters: spec.WrittenParameters(`{"lending":{"targetUtilization":60}}`)}
	for name, c := range map[string]struct {
		wanted  *spec.WantedConfiguration
		applied *spec.AppliedConfiguration
		want    string
	}{
		"nothing":       {nil, nil, ""},
		"long over":     {nil, &spec.AppliedConfiguration{}, ""},
		"ended":         {nil, &spec.AppliedConfiguration{Name: "web", Hash: "h2", InForce: "h2"}, "Configuration: no NodeConfiguration is in force any more, and the agent has not gone back to its file yet."},
		"told":          {told, nil, "Configuration: the agent was told NodeConfiguration web, revision r2, and has not answered yet; it runs with its file alone."},
		"told anew":     {told, &spec.AppliedConfiguration{Name: "web", Hash: "h1", InForce: "h1"}, "Configuration: the agent was told NodeConfiguration web, revision r2, and has not answered yet; it runs with what it was told before."},
		"old error":     {told, &spec.AppliedConfiguration{Name: "web", Hash: "h1", Error: "of before"}, "Configuration: the agent was told NodeConfiguration web, revision r2, and has not answered yet; it runs with its file alone."},
		"applied":       {told, &spec.AppliedConfiguration{Name: "web", Hash: "h2", InForce: "h2"}, `Configuration: NodeConfiguration web, revision r2, is in force: {"lending":{"targetUtilization":60}}`},
		"idle":          {told, &spec.AppliedConfiguration{Name: "web", Hash: "h2", InForce: "h2", Idle: true}, "Configuration: NodeConfiguration web, revision r2, is in force: {\"lending\":{\"targetUtilization\":60}}\nThe node does not lend, so that nothing uses its parameters."},
		"refused":       {told, &spec.AppliedConfiguration{Name: "web", Hash: "h2", Error: "too high"}, "Configuration: the agent refuses NodeConfiguration web, revision r2 (too high); it runs with its file alone."},
		"refused later": {told, &spec.AppliedConfiguration{Name: "web", Hash: "h2", InForce: "h1", Error: "too high"}, "Configuration: the agent refuses NodeConfiguration web, revision r2 (too high); it runs with what it was told before."},
	} {
		got := ""
		if said := configured(c.wanted, c.applied); said != nil {
			got = said.String()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
