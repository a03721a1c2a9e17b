package doctest_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/internal/reference"
)

// TestSite: the site's navigation has every page once, the decisions excepted, which pages name one by one.
func TestSite(t *testing.T) {
	root := reference.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var site struct{ Nav []any }
	if err := yaml.Unmarshal(text, &site); err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]int)
	countPages(site.Nav, shown)
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	if err := fs.WalkDir(os.DirFS(root), "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, "docs/adr/") {
			pages = append(pages, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if shown[page] != 1 {
			t.Errorf("%s is %d times in the nav of mkdocs.yml; name it once", page, shown[page])
		}
		delete(shown, page)
	}
	for _, page := range slices.Sorted(maps.Keys(shown)) {
		t.Errorf("mkdocs.yml names %s, which is no page", page)
	}
}

// countPages counts the pages below a part of the navigation: texts, lists, and titles with what is below them.
func countPages(part any, shown map[string]int) {
	switch part := part.(type) {
	case string:
		shown[part]++
	case []any:
		for _, item := range part {
			countPages(item, shown)
		}
	case map[string]any:
		for _, below := range part {
			countPages(below, shown)
		}
	}
}
