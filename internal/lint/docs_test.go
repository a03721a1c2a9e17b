package lint

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// linkPattern finds the target of a Markdown link or image.
var linkPattern = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestDocLinks fails when a relative link in a Markdown file leads nowhere: to a file that is not there, or to a heading that the file does not have.
func TestDocLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, name := range markdown(t, root) {
		for _, link := range linkPattern.FindAllStringSubmatch(prose(t, filepath.Join(root, name)), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s links to %s: there is no %s", name, link[1], file)
				continue
			}
			if anchor != "" && strings.HasSuffix(file, ".md") && !anchors(prose(t, filepath.Join(root, file)))[anchor] {
				t.Errorf("%s links to %s: %s has no such heading", name, link[1], file)
			}
		}
	}
}

// markdown lists the project's Markdown files, relative to the root.
func markdown(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".md"):
			name, err := filepath.Rel(root, path)
			names = append(names, name)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// prose is a Markdown file without its fenced blocks, whose brackets are code.
func prose(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fenced := false
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			out.WriteString(line)
		}
	}
	return out.String()
}

// anchors are the names that a Markdown renderer gives to the headings: lower case, letters, digits and dashes.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		heading := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				return r
			}
			return -1
		}, heading)] = true
	}
	return names
}

// namedTest is a test that a page names.
var namedTest = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`")

// TestSecurityNamesTests: each test that docs/security.md says holds a claim is there.
func TestSecurityNamesTests(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	missing := make(map[string]bool)
	for _, match := range namedTest.FindAllStringSubmatch(string(page), -1) {
		missing[match[1]] = true
	}
	if len(missing) < 30 {
		t.Fatalf("it names only %d tests", len(missing))
	}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		for test := range missing {
			if bytes.Contains(text, []byte("\nfunc "+test+"(")) {
				delete(missing, test)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for test := range missing {
		t.Errorf("docs/security.md: there is no %s", test)
	}
}

// numberedDecision is the file of a decision, with its number.
var numberedDecision = regexp.MustCompile(`^docs/adr/([0-9]{4})-`)

// TestDecisionsAreNumbered: no two decisions have one number, and each has its own in its title.
func TestDecisionsAreNumbered(t *testing.T) {
	root := filepath.Join("..", "..")
	known := make(map[string]string)
	for _, name := range markdown(t, root) {
		found := numberedDecision.FindStringSubmatch(filepath.ToSlash(name))
		if found == nil {
			continue
		}
		number := found[1]
		if other := known[number]; other != "" {
			t.Errorf("%s and %s have one number", other, name)
		}
		known[number] = name
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if title, _, _ := strings.Cut(string(text), "\n"); !strings.Contains(title, number+":") {
			t.Errorf("%s is called %q", name, title)
		}
	}
	if len(known) == 0 {
		t.Error("there are no decisions")
	}
}
