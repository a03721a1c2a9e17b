package reference_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"hilbert.dev/hilbert/cmd/hilbert/command"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
)

var man = flag.String("man", "", "write the manual pages into this folder (make man)")

// TestManualPages writes a manual page of each command, and holds that none is missing. The date is fixed, so that the same source gives the same bytes.
func TestManualPages(t *testing.T) {
	dir := *man
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	date := time.Unix(0, 0).UTC()
	for _, root := range []*cobra.Command{command.New(), daemon.NewCommand()} {
		root.DisableAutoGenTag = true
		root.CompletionOptions.DisableDefaultCmd = true
		root.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true})
		if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Hilbert", Manual: "Hilbert", Date: &date}, dir); err != nil {
			t.Fatal(err)
		}
		held(t, dir, root)
	}
}

func held(t *testing.T, dir string, c *cobra.Command) {
	t.Helper()
	if !c.IsAvailableCommand() && c.HasParent() {
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
	if err != nil || !strings.Contains(string(text), ".SH NAME") {
		t.Errorf("%s has no manual page: %v", c.CommandPath(), err)
	}
	for _, sub := range c.Commands() {
		held(t, dir, sub)
	}
}
