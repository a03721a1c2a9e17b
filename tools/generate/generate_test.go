package generate

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestUnchanged: what controller-gen would write is what the tree has.
func TestUnchanged(t *testing.T) {
	const root, file = "../..", "zz_generated.deepcopy.go"
	modules, err := filepath.Abs("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"api/spec", "api/node/v1alpha1", "api/scheduling/v1alpha1"} {
		out := t.TempDir()
		command := exec.CommandContext(t.Context(), "go", "tool", "-modfile="+modules, "controller-gen", "object", "output:object:dir="+out, "paths=./"+dir)
		command.Dir = root
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		want, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s/%s is not what controller-gen writes: make gen", dir, file)
		}
	}
}
