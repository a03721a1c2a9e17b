package migrate

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"hilbert.dev/hilbert/internal/reference"
)

var rewrite = flag.Bool("policies", false, "write the policies of deploy/migration instead of comparing them")

// TestLivePolicies compares the files of deploy/migration with what they are made of.
func TestLivePolicies(t *testing.T) {
	dir := filepath.Join(reference.Root(t), "deploy", "migration")
	for _, name := range LiveSystems() {
		got, err := LivePolicies(name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name+".yaml")
		if *rewrite {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != string(got) {
			t.Errorf("%s is not what is made of the words of %s (%v): run make gen, and read the difference", file, name, err)
		}
	}
}
