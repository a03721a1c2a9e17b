package realnode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/storage"
)

// A kubelet that answers is believed, whatever its files say. One that does not is known by its files, if they can be seen; if not, nobody says who rules, and
// the agent gives out no CPUs.
func TestAutoMode(t *testing.T) {
	says := func(cpu, memory string) func(context.Context) (*storage.KubeletConfiguration, error) {
		return func(context.Context) (*storage.KubeletConfiguration, error) {
			return &storage.KubeletConfiguration{CPUManagerPolicy: cpu, MemoryManagerPolicy: memory}, nil
		}
	}
	silent := func(context.Context) (*storage.KubeletConfiguration, error) { return nil, errors.New("no answer") }
	const none, static = `{"policyName":"none"}`, `{"policyName":"static"}`
	for name, c := range map[string]struct {
		ask   func(context.Context) (*storage.KubeletConfiguration, error)
		file  string
		want  string
		known bool
	}{
		"says none":                     {says("none", "None"), "", spec.ModeAgent, true},
		"says nothing of policies":      {says("", ""), static, spec.ModeAgent, true},
		"says static":                   {says("static", ""), none, spec.ModeKubelet, true},
		"says static memory":            {says("none", "Static"), none, spec.ModeKubelet, true},
		"silent, and its files are off": {silent, none, spec.ModeAgent, true},
		"silent, and its files are on":  {silent, static, spec.ModeKubelet, true},
		"silent, and no files are seen": {silent, "", spec.ModeKubelet, false},
		"not asked":                     {nil, static, spec.ModeKubelet, true},
		"not asked, and it never ran":   {nil, "", spec.ModeAgent, true},
	} {
		dir := t.TempDir()
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(dir, CPUManagerState), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if mode, why, known := autoMode(t.Context(), dir, c.ask); mode != c.want || known != c.known || why == "" {
			t.Errorf("%s: %s (%v), because %q", name, mode, known, why)
		}
	}
}
