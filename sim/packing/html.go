package packing

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"hilbert.dev/hilbert/sim/page"
)

// WriteHTML writes the experiment as one page that needs nothing else.
func (res *Result) WriteHTML(w io.Writer) error {
	shown := struct {
		*Result

		Charts []template.HTML
		Causes []string
	}{Result: res, Causes: Causes()}
	for i, s := range res.Summaries {
		if i == 0 || s.Workload != res.Summaries[i-1].Workload {
			shown.Charts = append(shown.Charts, res.chart(s.Workload))
		}
	}
	return page.Write(w, "packing GPUs", body, nil, shown)
}

// Colours of the lines: they differ in lightness too.
var colours = map[string]string{PolicyHilbert: "#1b6ca8", PolicyFGD: "#c8452b", PolicyBestFit: "#9a9a9a"}

// Sizes of a chart in pixels, and what it shows: percent arrived across, percent allocated up.
const (
	chartWidth, chartHeight            = 920, 300
	marginLeft, marginTop, marginUnder = 46, 12, 24
	firstArrived, lastArrived          = 80.0, 130.0
	firstAllocated, lastAllocated      = 76.0, 100.0
)

// chart draws how much was allocated as pods arrived, in the first seed of each policy.
func (res *Result) chart(workload string) template.HTML {
	x := func(v float64) float64 {
		return marginLeft + (v-firstArrived)/(lastArrived-firstArrived)*(chartWidth-marginLeft-8)
	}
	y := func(v float64) float64 {
		return chartHeight - marginUnder - (v-firstAllocated)/(lastAllocated-firstAllocated)*(chartHeight-marginUnder-marginTop)
	}
	title := template.HTMLEscapeString(workload + ": percent of the GPUs allocated, as pods that ask for a percentage of them arrive")
	var b, legend strings.Builder
	fmt.Fprintf(&b, `<figure><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, chartHeight, title)
	for v := firstAllocated; v <= lastAllocated; v += 4 {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" class="left">%.0f</text>`,
			marginLeft, chartWidth-8, y(v), y(v), marginLeft-6, y(v)+4, v)
	}
	for v := firstArrived; v <= lastArrived; v += 10 {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" class="under">%.0f</text>`, x(v), chartHeight-6, v)
	}
	for _, s := range res.Summaries {
		if s.Workload != workload || len(s.Runs) == 0 {
			continue
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colours[s.Policy])
		for _, p := range s.Runs[0].Curve {
			if p.Arrived >= firstArrived && p.Allocated >= firstAllocated {
				fmt.Fprintf(&b, "%.1f,%.1f ", x(p.Arrived), y(p.Allocated))
			}
		}
		b.WriteString(`"/>`)
		fmt.Fprintf(&legend, `<span><i style="background:%s"></i>%s</span> `, colours[s.Policy], template.HTMLEscapeString(s.Policy))
	}
	b.WriteString(`</svg><figcaption>` + title + `: ` + legend.String() + `</figcaption></figure>`)
	return template.HTML(b.String()) //nolint:gosec // what stands in it is escaped above
}

const body = `<h1>Packing GPUs</h1>
<p>{{.Seeds}} seeds. Pods arrive until they have asked for 130 % of the GPUs, never leave, and are not retried. At most {{f2 .Defragment}} % of the running pods were moved.
A pod that fits some node is placed; "wrong" counts refusals that were not so.</p>
{{range .Charts}}{{.}}{{end}}
<table><tr><th>workload</th><th class="word">policy</th><th>at 100 %</th><th>at 130 %</th><th>published</th><th>gain over fgd</th><th>wrong</th><th>moves</th>{{range .Causes}}<th>{{.}}</th>{{end}}</tr>
{{$causes := .Causes}}{{range $s := .Summaries}}<tr><td>{{.Workload}}</td><td class="word">{{.Policy}}</td><td>{{f2 .At100}}</td><td>{{f2 .AtEnd}}</td>
<td>{{with .Published}}{{f2 (index . 1)}}{{end}}</td><td>{{with .GainOverFGD}}{{f2 .}}{{end}}</td><td>{{.RefusedThoughFit}}</td><td>{{f0 .Moves}}</td>
{{range $causes}}<td>{{f2 (index $s.Stranded .)}}</td>{{end}}</tr>{{end}}</table>
`
