// Package report writes the HTML pages of hilbert: one look, numbers written alike, and nothing loaded from elsewhere.
//
// A caller gives a title, the body as a template, and the values that the template shows; Write puts the frame around it. The style of the frame has
// the classes of the lines and words in pictures.
//
// Pictures are SVG. Drawing has shapes and words at pixels, and becomes a part of a page or a file of its own. Figure is a Drawing with a grid and a
// caption. The demo's report and the experiments of the lab draw with it too, so escaping and numbers are right in one place.
//
// Pages are for light and dark screens, and for narrow ones. Pictures keep a light ground.
//
// Invariants: a page loads nothing. What the template shows is escaped, unless it is HTML already.
//
// The package computes nothing: callers give pixels and words.
package report

import (
	"fmt"
	"html/template"
	"io"

	"hilbert.dev/hilbert/internal/version"
)

// Write writes a page. f0, f1 and f2 write a number with so many decimals; functions are further ones for the template, nil for none.
func Write(w io.Writer, title, body string, functions template.FuncMap, shown any) error {
	frame := template.New("frame").Funcs(template.FuncMap{"f0": fixed("%.0f"), "f1": fixed("%.1f"), "f2": fixed("%.2f"), "percent": percent}).Funcs(functions)
	if _, err := frame.New("body").Parse(body); err != nil {
		return fmt.Errorf("page %q: %w", title, err)
	}
	if _, err := frame.Parse(text); err != nil {
		return fmt.Errorf("page %q: %w", title, err)
	}
	return frame.Execute(w, struct {
		Title, Version string
		Shown          any
	}{title, version.Get().Version, shown})
}

// percent is a share in percent.
func percent(share float64) string { return fixed("%.1f")(100 * share) }

func fixed(format string) func(float64) string {
	return func(x float64) string { return fmt.Sprintf(format, x) }
}

const text = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Hilbert: {{.Title}}</title>
<style>
:root{color-scheme:light dark;--ground:#fff;--words:#222;--quiet:#5c5c5c;--edge:#ddd}
@media (prefers-color-scheme:dark){:root{--ground:#16191c;--words:#e4e6e8;--quiet:#a3a8ad;--edge:#34393e}figure svg{background:#fff;border-radius:4px;padding:4px}}
body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:0 auto;padding:0 1em 2em;color:var(--words);background:var(--ground)}
header,footer{color:var(--quiet);font-size:13px}header{padding:.8em 0;border-bottom:1px solid var(--edge)}header b{color:var(--words);font-size:15px;margin-right:.8em}footer{margin-top:2em}
table{border-collapse:collapse;width:100%;margin:1em 0;font-size:13px;display:block;overflow-x:auto}td,th{border-bottom:1px solid var(--edge);padding:.3em .5em;text-align:right}
td:first-child,th:first-child,.word{text-align:left}figure{margin:1.5em 0}svg{width:100%;height:auto}.grid{stroke:#e4e4e4}.whisker{stroke:#333}
text{font-size:11px;fill:#555}.left{text-anchor:end}.under{text-anchor:middle}figcaption{font-size:13px;color:var(--quiet)}
figcaption i{display:inline-block;width:12px;height:12px;margin:0 4px 0 10px;border-radius:2px}.big{display:flex;gap:2em;flex-wrap:wrap}.big b{display:block;font-size:28px}
@media (max-width:480px){body{padding:0 .6em 1em}figure{overflow-x:auto}figure svg{min-width:640px}}
</style></head><body><header><b>Hilbert</b>{{.Title}}</header>
{{template "body" .Shown}}
<footer>Made by Hilbert {{.Version}}.</footer></body></html>
`
