package reference

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Commands is the help of programs and of all their commands that are not hidden, as one page.
func Commands(t testing.TB, roots ...*cobra.Command) string {
	t.Helper()
	var out strings.Builder
	for _, root := range roots {
		// The commands that cobra adds to every program when it runs are left out.
		root.CompletionOptions.DisableDefaultCmd = true
		root.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true})
		root.DisableAutoGenTag = true
		commands(t, &out, root)
	}
	return out.String()
}

func commands(t testing.TB, out *strings.Builder, c *cobra.Command) {
	t.Helper()
	if c.Hidden || c.Name() == "help" {
		return
	}
	// cobra/doc links commands as files; here each is a heading of the one page.
	var text bytes.Buffer
	anchor := func(file string) string { return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-") }
	if err := doc.GenMarkdownCustom(c, &text, anchor); err != nil {
		t.Fatal(err)
	}
	out.WriteString(strings.ReplaceAll(text.String(), "\n### ", "\n#### ") + "\n")
	for _, sub := range c.Commands() {
		commands(t, out, sub)
	}
}
