package parts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A part whose files are not what they were is refused by name, whatever has changed of it.
func TestVerify(t *testing.T) {
	changes := map[string]func(t *testing.T, dir string) error{
		"bin/tool": func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "bin/tool"), []byte("evil"), 0o755)
		},
		"lib": func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "lib")) },
		"new": func(_ *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o644) },
		"link": func(_ *testing.T, dir string) error {
			link := filepath.Join(dir, "link")
			if err := os.Remove(link); err != nil {
				return err
			}
			return os.Symlink("/etc/passwd", link)
		},
	}
	for file, change := range changes {
		t.Run(file, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "part-1")
			if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"bin/tool": "good", "lib": "x"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("lib", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first writes the digests
				if err := verify(dir); err != nil {
					t.Fatal(err)
				}
			}
			if err := change(t, dir); err != nil {
				t.Fatal(err)
			}
			if err := verify(dir); err == nil || !strings.Contains(err.Error(), ": "+file+" is not what it was") {
				t.Errorf("%v", err)
			}
		})
	}
}
