package doctest

import (
	"os"
	"path/filepath"
	"testing"
)

// Workspace returns a folder in which the tree's files lie as in its root. What the commands of the pages write lands there and not in the tree.
func Workspace(t testing.TB, root string) string {
	t.Helper()
	folder := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(root, e.Name()), filepath.Join(folder, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}
