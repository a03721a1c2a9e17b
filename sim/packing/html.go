package packing

import (
	"fmt"
	"html/template"
	"io"
	"slices"

	"hilbert.dev/hilbert/internal/report"
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
	return report.Write(w, "packing GPUs", body, nil, shown)
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
	f := report.NewFigure(workload+": percent of the GPUs allocated, as pods that ask for a percentage of them arrive", chartWidth, chartHeight)
	for v := firstAllocated; v <= lastAllocated; v += 4 {
		f.Row(marginLeft, chartWidth-8, y(v), fmt.Sprintf("%.0f", v))
	}
	for v := firstArrived; v <= lastArrived; v += 10 {
		f.Under(x(v), chartHeight-6, fmt.Sprintf("%.0f", v))
	}
	for _, s := range res.Summaries {
		if s.Workload != workload || len(s.Runs) == 0 {
			continue
		}
		curve := slices.DeleteFunc(slices.Clone(s.Runs[0].Curve), func(p Point) bool {
			return p.Arrived < firstArrived || p.Allocated < firstAllocated
		})
		f.Curve(colours[s.Policy], len(curve), func(i int) (float64, float64) { return x(curve[i].Arrived), y(curve[i].Allocated) })
		f.Legend(colours[s.Policy], s.Policy)
	}
	return f.HTML("")
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
