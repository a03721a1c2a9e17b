// Package reference writes the generated pages of docs/reference and holds them fresh. A page is what a test says about the product: the
// commands of a program, the fields of a struct with their defaults, the metrics of a registry, the names in api/spec. Hold compares that
// text with the file in docs/reference, and fails if they differ; `make gen` writes it.
//
// Data flow: a test builds the text from the real value (the cobra command, spec.Default, the CRDs of deploy, the prometheus
// descriptors) and from the doc comments beside it, and hands it to Hold. For example, a new field
//
//	// MaxInFlight bounds the Bindings under way at once.
//	MaxInFlight int `json:"maxInFlight"`
//
// becomes the row "| `scheduling.binding.maxInFlight` | integer | `64` | Bounds the Bindings under way at once. |" of configuration.md.
//
// Invariants: the same source gives the same bytes; what stands in a page above the line Marker is written by hand and kept. It is test
// support: no product package imports it.
package reference

//go:generate go test -count=1 -run ^TestReference . ../../cmd/hilbertd/daemon -args -write
//go:generate go -C ../../lab test -vet=off -count=1 -run ^TestReference ./cmd/hilbert-lab -args -write

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write the generated pages of docs/reference instead of comparing them")

// Marker is the line below which a page is generated.
const Marker = "<!-- Generated below this line. Change the source and run `make gen`. -->\n"

// Hold fails the test if the generated part of a page of docs/reference is not text, and says how to write it anew. With -write it writes
// it; a page that does not exist yet begins with the title.
func Hold(t testing.TB, page, title, text string) {
	t.Helper()
	path := filepath.Join(Root(t), "docs", "reference", page)
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	head, was, found := strings.Cut(string(old), Marker)
	if !found {
		head, was = "# "+title+"\n\n", ""
	}
	text = "\n" + strings.TrimSpace(text) + "\n"
	if was == text {
		return
	}
	if !*write {
		t.Errorf("docs/reference/%s is not what the source says now; write it anew with `make gen` and read the difference. First: %s", page, firstDifference(was, text))
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(head+Marker+text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func firstDifference(was, is string) string {
	old, now := strings.Split(was, "\n"), strings.Split(is, "\n")
	for i := range min(len(old), len(now)) {
		if old[i] != now[i] {
			return "\nfile:   " + old[i] + "\nsource: " + now[i]
		}
	}
	return "one of them ends sooner"
}

// Root returns the root of the source tree: the nearest folder above the test's that holds both modules.
func Root(t testing.TB) string {
	t.Helper()
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "lab", "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("%s lies in no tree with lab/go.mod", at)
		}
	}
}
