package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"strconv"
	"time"
)

// view is what a template shows.
type view struct {
	Page    page
	Cluster *Cluster // nil until there is one
	Failed  error    // why there is no newer one
	Problem string   // of this page alone
	History history
	Source  string
	Now     time.Time
	Path    string
	Shown   any
}

// Title names the page.
func (v *view) Title() string {
	if v.Page.name != "" {
		return v.Page.name
	}
	return v.Path
}

// Menu are the pages that have an entry.
func (v *view) Menu() (list []menuEntry) {
	for _, p := range pages {
		if p.name != "" {
			path := p.path
			if path == "/{$}" {
				path = "/"
			}
			list = append(list, menuEntry{p.name, path, path == v.Path})
		}
	}
	return list
}

type menuEntry struct {
	Name, Path string
	Here       bool
}

// Ready: there is what the page needs.
func (v *view) Ready() bool { return v.Cluster != nil || v.Page.alone }

// Age is how old the state is.
func (v *view) Age() string { return max(v.Now.Sub(v.Cluster.Taken), 0).Round(time.Second).String() }

// Body renders what is in the frame.
func (v *view) Body() (template.HTML, error) {
	var b bytes.Buffer
	err := templates.ExecuteTemplate(&b, v.Page.body, v)
	return template.HTML(b.String()), err //nolint:gosec // the template has escaped it
}

// Chart draws the history.
func (v *view) Chart() template.HTML { return drawHistory(v.History) }

// Bars draws the sums.
func (v *view) Bars() template.HTML { return drawTotals(&v.Cluster.Totals) }

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"cpus": cpus, "bytes": bytesOf, "gpus": cpus, "percent": percentOf, "age": ageOf, "amount": amountOf,
}).ParseFS(templateFiles, "templates/*.html"))

// cpus writes thousandths of CPUs or GPUs.
func cpus(milli int64) string {
	if milli%1000 == 0 || milli >= 100_000 || milli <= -100_000 {
		return strconv.FormatInt(milli/1000, 10)
	}
	return strconv.FormatFloat(float64(milli)/1000, 'f', 1, 64)
}

// bytesOf writes an amount of memory.
func bytesOf(n int64) string {
	units := []string{"B", "Ki", "Mi", "Gi", "Ti", "Pi"}
	x, at := float64(n), 0
	for (x >= 1024 || x <= -1024) && at < len(units)-1 {
		x, at = x/1024, at+1
	}
	if x == float64(int64(x)) || x >= 100 {
		return fmt.Sprintf("%.0f %s", x, units[at])
	}
	return fmt.Sprintf("%.1f %s", x, units[at])
}

// amountOf writes an amount of a resource as people write it.
func amountOf(resource string, n int64) string {
	switch resource {
	case "cpu", "hilbert.dev/gpu":
		return cpus(n)
	case "memory", "ephemeral-storage":
		return bytesOf(n)
	}
	return strconv.FormatInt(n, 10)
}

func percentOf(of, all int64) string {
	if all <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*part(of, all))
}

func ageOf(now, then time.Time) string {
	d := max(now.Sub(then), 0)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return d.Round(time.Second).String()
}
