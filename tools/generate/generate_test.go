package generate

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestProtocolUnchanged: what is generated of the plugin protocol is what the tree has.
func TestProtocolUnchanged(t *testing.T) {
	const directory = "../../api/nodeplugin/v1alpha1"
	out := t.TempDir()
	if said, err := exec.CommandContext(t.Context(), "go", "run", "./proto", directory, "nodeplugin.proto", out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, file := range []string{"nodeplugin.pb.go", "nodeplugin_grpc.pb.go"} {
		want, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(directory, file))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s/%s is not what is generated: make gen", directory, file)
		}
	}
}

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
