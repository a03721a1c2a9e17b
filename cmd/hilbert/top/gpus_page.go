package top

import (
	"html/template"
	"io"
	"time"

	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/internal/report"
)

// maxPictures is how many nodes a page draws, whatever the limit: a node takes some ten kilobytes.
const maxPictures = 500

// WriteHTML draws the map as a page that needs nothing else.
func (v *gpusView) WriteHTML(w io.Writer, now time.Time) error {
	shown := struct {
		*gpusView

		At        string
		Counts    template.HTML
		Pictures  []template.HTML
		GPUs      int
		There     int
		Undrawn   int
		MoreDrawn bool // a higher limit would draw more
	}{gpusView: v, At: now.UTC().Format(time.RFC3339), Counts: drawCounts(v.Models), There: len(v.Nodes) + v.More}
	for i := range v.Nodes[:min(len(v.Nodes), maxPictures)] {
		shown.Pictures = append(shown.Pictures, v.Nodes[i].draw())
	}
	shown.Undrawn, shown.MoreDrawn = shown.There-len(shown.Pictures), len(shown.Pictures) < maxPictures
	for i := range v.Models {
		shown.GPUs += v.Models[i].GPUs
	}
	return report.Write(w, "GPUs", gpusBody, template.FuncMap{
		"gpus": gpus, "size": func(milli int32) string { return gpus(int64(milli)) }, "percent": func(part *float64) float64 { return 100 * *part }, "named": output.OrDash,
	}, shown)
}

const gpusBody = `<h1>GPUs</h1>
<p>By what the nodes' agents report, as of {{.At}}: {{.GPUs}} GPUs, and {{.There}} nodes with GPUs or network cards, of which {{len .Pictures}} are drawn below.
{{- if .Undrawn}} <b>Not drawn are {{.Undrawn}} nodes</b>, which are counted: name some{{if .MoreDrawn}}, or raise --limit{{end}}.{{end}}
{{- if .Unread}} Not counted, because what they say of their devices cannot be read: {{.Unread}} nodes.{{end}}</p>
{{if .Models}}{{.Counts}}
<table><tr><th>model</th><th>GPUs</th><th>idle</th><th>shared</th><th>divided</th><th>held</th><th>closed</th><th>free</th>{{range (index .Models 0).Sizes}}<th>pods of {{size .Milli}}</th>{{end}}</tr>
{{range .Models}}<tr><td>{{named .Model}}</td><td>{{.GPUs}}</td><td>{{.Idle}}</td><td>{{.Shared}}</td><td>{{.Divided}}</td><td>{{.Held}}</td><td>{{.Closed}}</td><td>{{gpus .FreeMilli}}</td>
{{- range .Sizes}}<td>{{.Fits}}{{if .Fragmentation}} ({{f0 (percent .Fragmentation)}}%){{end}}</td>{{end}}</tr>
{{end}}</table>
<p>Pods of a size in GPUs: how many the free GPUs would hold, and (%) which share of what is free they could not use: the fragmentation.</p>
{{else}}<p>No agent reports such GPUs.</p>
{{end}}{{range .Pictures}}<figure>{{.}}</figure>
{{end}}`
