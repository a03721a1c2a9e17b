package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const koordinatorPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {koordinator.sh/qosClass: LSR}}\nspec: {containers: [{name: main}]}\n"

// runMigrate runs the command on a manifest.
func runMigrate(t *testing.T, manifest string, args ...string) (out, errOut string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := New()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{"migrate", "-f", file}, args...))
	err = cmd.Execute()
	return stdout.String(), stderr.String(), err
}

func TestMigrate(t *testing.T) {
	out, findings, err := runMigrate(t, koordinatorPod)
	if err != nil || !strings.Contains(out, "hilbert.dev/qos-level: dedicated_cores") || !strings.Contains(findings, "Lost: koordinator.sh/qosClass: LSR") {
		t.Errorf("%v\n%s\n%s", err, out, findings)
	}
	out, _, err = runMigrate(t, koordinatorPod, "-o", "json")
	var said migrated
	if err != nil || json.Unmarshal([]byte(out), &said) != nil || len(said.Findings) != 3 || !strings.Contains(said.Manifest, "schedulerName: hilbert") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestMigrateWritesNothing where words are unknown, or lost and --strict.
func TestMigrateWritesNothing(t *testing.T) {
	for _, c := range []struct {
		name, manifest, want string
		args                 []string
	}{
		{"unknown word", strings.Replace(koordinatorPod, "qosClass", "qosClas", 1), "words that are not known: 1", nil},
		{"strict", koordinatorPod, "meanings that are lost or invented: 1", []string{"--strict"}},
		{"strict as JSON", koordinatorPod, "meanings that are lost or invented: 1", []string{"--strict", "-o", "json"}},
		{"no object", "[1]", "it is no object", nil},
		{"output", koordinatorPod, `--output "wide" is not known; write yaml or json`, []string{"-o", "wide"}},
		{"pod groups", koordinatorPod, `PodGroups of "x": write scheduling.k8s.io or scheduling.x-k8s.io`, []string{"--pod-groups", "x"}},
		{"gpu memory", koordinatorPod, "a GPU's memory of -1 MiB", []string{"--gpu-memory", "-1"}},
	} {
		out, _, err := runMigrate(t, c.manifest, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(out, "kind: Pod") {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}
