package report

import (
	"strings"
	"testing"

	"hilbert.dev/hilbert/internal/version"
)

// TestWrite: the body stands in the frame once, numbers have their decimals, and what is shown is escaped.
func TestWrite(t *testing.T) {
	var b strings.Builder
	shown := struct {
		Name  string
		Value float64
	}{"a<b", 2.345}
	if err := Write(&b, "a test", "<h1>{{.Name}}</h1>{{f0 .Value}} {{f1 .Value}} {{f2 .Value}} {{twice .Name}}\n", map[string]any{
		"twice": func(s string) string { return s + s },
	}, shown); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"<title>Hilbert: a test</title>", "<h1>a&lt;b</h1>2 2.3 2.35 a&lt;ba&lt;b\n\n<footer>Made by Hilbert " + version.Get().Version + ".</footer></body></html>",
		"prefers-color-scheme:dark", "width=device-width",
	} {
		if strings.Count(page, want) != 1 {
			t.Errorf("the page has not once %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "src=") || strings.Contains(page, "href=") {
		t.Error("the page loads something")
	}
	if err := Write(&b, "a test", "{{.Nothing", nil, nil); err == nil {
		t.Error("a body that is no template is no error")
	}
}
