package doctest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "hilbert.dev/hilbert/internal/doctest"
	"hilbert.dev/hilbert/internal/reference"
)

// TestPages runs everything that README, tutorials and how-tos show, page by page. Commands that ask a cluster ask a hilbertd that leads a
// stand-in; manifests and kubectl are also tried on a real API server, by lab/docs.
func TestPages(t *testing.T) {
	root := reference.Root(t)
	pages := Pages(t, root)
	workspace(t, root)
	cluster := startCluster(t, pages)
	for _, page := range pages {
		t.Run(page.Name, func(t *testing.T) { runPage(t, root, cluster, page) })
	}
}

func runPage(t *testing.T, root string, cluster *leader, page *Page) {
	run := 0
	for _, block := range page.Blocks {
		switch {
		case block.NotRun != "":
			t.Logf("%s: not run: %s", block.At(), block.NotRun)
		case block.Indented:
			t.Errorf("%s: a command that no test runs: %q; write it behind \"$ \" in a block that begins with ```console", block.At(), strings.TrimSpace(block.Text))
		case block.Language == "yaml":
			for i, text := range Documents(block.Text) {
				if err := decode(t, text); err != nil {
					t.Errorf("%s: object %d: %v", block.At(), i+1, err)
				}
			}
			run++
		case block.Language == "console":
			commands, err := block.Commands()
			if err != nil {
				t.Errorf("%s: %v", page.Name, err)
			}
			for _, command := range commands {
				if err := cluster.try(t, root, command); err != nil {
					t.Errorf("%s:%d: $ %s: %v", page.Name, command.Line, command, err)
				}
			}
			run++
		case strings.Contains("\n"+block.Text, "\n$ "):
			t.Errorf("%s: commands in a block of language %q; begin it with ```console", block.At(), block.Language)
		}
		if block.File != "" {
			if err := os.WriteFile(block.File, []byte(block.Text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if run == 0 {
		t.Errorf("%s shows nothing that a test runs: no manifest and no command", page.Name)
	}
}

// workspace makes a folder the current one in which the tree's files lie as in its root, so that what the pages write does not land there.
func workspace(t *testing.T, root string) {
	t.Helper()
	t.Chdir(Workspace(t, root))
	pods, err := os.ReadFile(filepath.Join("examples", "first-pod.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// What the pages call pods.yaml is any manifest of pods.
	if err := os.WriteFile("pods.yaml", pods, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCommands(t *testing.T) {
	page := Blocks("p.md", "text\n\n<!-- not run: why -->\n```yaml\na: 1\n```\n\n```console\n$ cd lab && go run 'a b' # word\nx\n$ KEY=1 hilbert snapshot > f.json\n```\n\n    kubectl get pods\n")
	if len(page) != 3 || page[0].NotRun != "why" || page[1].NotRun != "" || !page[2].Indented {
		t.Fatalf("got %+v", page)
	}
	commands, err := page[1].Commands()
	if err != nil || len(commands) != 2 {
		t.Fatalf("got %v, %v", commands, err)
	}
	if c := commands[0]; c.Folder != "lab" || len(c.Words) != 3 || c.Output != "x\n" || c.Line != 9 {
		t.Errorf("got %+v", c)
	}
	if c := commands[1]; c.Stdout != "f.json" || c.Program() != "hilbert" {
		t.Errorf("got %+v", c)
	}
}
