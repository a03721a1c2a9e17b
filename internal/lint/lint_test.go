package lint

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTree holds every rule against the project itself.
func TestTree(t *testing.T) {
	tr, err := load(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.packages) < 2 {
		t.Fatalf("found %d packages under %s: the rules would hold for nothing", len(tr.packages), tr.root)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, line := range r.lines(tr) {
				t.Errorf("%s\n\twhy: %s", line, r.why)
			}
		})
	}
}

// lines renders a rule's breaches, in order of place.
func (r rule) lines(tr *tree) []string {
	breaches := r.check(tr)
	slices.SortFunc(breaches, func(a, b breach) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line), strings.Compare(a.what, b.what))
	})
	var out []string
	for _, b := range slices.Compact(breaches) {
		out = append(out, fmt.Sprintf("%s:%d: %s: %s", b.file, b.line, r.name, b.what))
	}
	return out
}

// TestPatternsMatch fails when a rule speaks of a package that is not there,
// which a rename would otherwise turn into silence.
func TestPatternsMatch(t *testing.T) {
	tr, err := load(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	patterns := join(core, vocabulary, kubeDoor, simDoor, generation, slices.Concat(roles...))
	slices.Sort(patterns)
	for _, pattern := range slices.Compact(patterns) {
		found := slices.ContainsFunc(tr.packages, func(p *pkg) bool { return matches([]string{pattern}, p.rel()) })
		switch isPlanned := slices.Contains(planned, pattern); {
		case !found && !isPlanned:
			t.Errorf("no package matches %s: was it renamed? Its rules hold for nothing now", pattern)
		case found && isPlanned:
			t.Errorf("%s has packages now: take it off the list of planned ones", pattern)
		}
	}
}

// TestFixtures breaks each rule on purpose. A transcript builds a tree with
// file commands; lint prints all breaches, of one rule where its name is given.
func TestFixtures(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		root := t.TempDir()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return fixture(t, root, d)
		})
	})
}

func fixture(t *testing.T, root string, d *datadriven.TestData) string {
	t.Helper()
	switch d.Cmd {
	case "file":
		name := filepath.Join(root, filepath.FromSlash(d.CmdArgs[0].String()))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			d.Fatalf(t, "making the fixture's folder: %v", err)
		}
		if err := os.WriteFile(name, []byte(d.Input+"\n"), 0o644); err != nil {
			d.Fatalf(t, "writing the fixture: %v", err)
		}
		return ""
	case "repeat":
		return repeat(t, root, d)
	case "lint":
		tr, err := load(root)
		if err != nil {
			d.Fatalf(t, "loading the fixture: %v", err)
		}
		var out []string
		for _, r := range rules {
			if len(d.CmdArgs) == 0 || r.name == d.CmdArgs[0].String() {
				out = append(out, r.lines(tr)...)
			}
		}
		return strings.Join(append(out, ""), "\n")
	}
	d.Fatalf(t, "unknown command %s: file, repeat or lint", d.Cmd)
	return ""
}

// repeat appends its input to a file a number of times, for the size rules.
func repeat(t *testing.T, root string, d *datadriven.TestData) string {
	t.Helper()
	var name string
	var times int
	d.ScanArgs(t, "file", &name)
	d.ScanArgs(t, "times", &times)
	full := filepath.Join(root, filepath.FromSlash(name))
	data, err := os.ReadFile(full)
	if err != nil {
		d.Fatalf(t, "reading the fixture: %v", err)
	}
	data = append(data, strings.Repeat(d.Input+"\n", times)...)
	if err := os.WriteFile(full, data, 0o644); err != nil {
		d.Fatalf(t, "writing the fixture: %v", err)
	}
	return ""
}

// TestEveryRuleFires reads the transcripts for at least one breach of every
// rule: a rule that nothing can break holds nothing.
func TestEveryRuleFires(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var recorded strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		recorded.Write(data)
	}
	for _, r := range rules {
		if !strings.Contains(recorded.String(), ": "+r.name+": ") {
			t.Errorf("no transcript in testdata records a breach of %s: write one", r.name)
		}
		if r.why == "" {
			t.Errorf("%s has no reason", r.name)
		}
	}
}
