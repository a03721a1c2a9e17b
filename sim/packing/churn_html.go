package packing

import (
	"fmt"
	"html/template"
	"io"

	"hilbert.dev/hilbert/internal/report"
)

// WriteHTML writes the experiment as one page that needs nothing else.
func (r *ChurnResult) WriteHTML(w io.Writer) error {
	shown := struct {
		*ChurnResult

		Charts []template.HTML
		Names  []string
	}{ChurnResult: r, Names: r.names()}
	for i, o := range r.Outcomes {
		if i > 0 && r.Outcomes[i-1].Load == o.Load {
			continue
		}
		for _, c := range []struct {
			title string
			of    func(*ChurnPoint) float64
		}{
			{"allocated", func(p *ChurnPoint) float64 { return p.Allocated }},
			{"fragmented", func(p *ChurnPoint) float64 { return p.Fragmented }},
			{"moves since the beginning", func(p *ChurnPoint) float64 { return float64(p.Moves) }},
		} {
			shown.Charts = append(shown.Charts, r.chart(o.Load, c.title, c.of))
		}
	}
	return report.Write(w, "packing GPUs while pods come and go", churnBody, nil, shown)
}

// With moves a line is darker.
var churnColours = map[string]string{
	PolicyHilbert: "#6fb1e0", PolicyFGD: "#e09a8a", PolicyBestFit: "#c4c4c4",
	PolicyHilbert + " with moves": "#0f4a78", PolicyFGD + " with moves": "#a02f18", PolicyBestFit + " with moves": "#6a6a6a",
}

// chart draws a figure over time, in the first seed of each policy.
func (r *ChurnResult) chart(load float64, title string, of func(*ChurnPoint) float64) template.HTML {
	f := report.NewFigure(fmt.Sprintf("%s at %.0f %% load", title, load), chartWidth, chartHeight)
	lines := make(map[string][]ChurnPoint)
	lowest, highest, first, last := 0.0, 0.0, 0.0, 1.0
	some := false
	for _, o := range r.Outcomes {
		if o.Load != load || lines[o.name()] != nil {
			continue
		}
		lines[o.name()] = o.Curve
		for i := range o.Curve {
			v := of(&o.Curve[i])
			if !some {
				lowest, highest, first, some = v, v, o.Curve[i].Day, true
			}
			lowest, highest, last = min(lowest, v), max(highest, v), max(last, o.Curve[i].Day)
		}
	}
	step := report.Step(highest-lowest, 6)
	from := step * float64(int(lowest/step))
	to := from + step
	for to < highest {
		to += step
	}
	x := func(day float64) float64 {
		return marginLeft + (day-first)/max(last-first, 1e-9)*(chartWidth-marginLeft-8)
	}
	y := func(v float64) float64 {
		return chartHeight - marginUnder - (v-from)/(to-from)*(chartHeight-marginUnder-marginTop)
	}
	for v := from; v <= to+step/2; v += step {
		f.Row(marginLeft, chartWidth-8, y(v), fmt.Sprintf("%.4g", v))
	}
	days := report.Step(last-first, 8)
	for d := first; d <= last; d += days {
		f.Under(x(d), chartHeight-6, fmt.Sprintf("%.4g", d))
	}
	for _, name := range r.names() {
		if curve := lines[name]; len(curve) > 0 {
			f.Curve(churnColours[name], len(curve), func(i int) (float64, float64) { return x(curve[i].Day), y(of(&curve[i])) })
			f.Legend(churnColours[name], name)
		}
	}
	return f.HTML("by day")
}

const churnBody = `<h1>Packing GPUs while pods come and go</h1>
<p>{{.Workload}}: {{f1 .Measured}} days after a warm-up of {{f1 .Warmup}}. Pods arrive at random times, run for as long as the list says, and end. One that finds no room goes away.
Fragmented is what a pod with a GPU, drawn from the list, cannot use of the cluster's GPUs; broken is free on GPUs that are held in part.</p>
{{range .Charts}}{{.}}{{end}}
<table><tr><th>load</th><th class="word">policy</th><th>moves</th><th>seed</th><th>allocated</th><th>fragmented</th><th>of free</th><th>broken</th><th>served</th><th>cpu</th><th>memory</th><th>cpu fragmented</th><th>moved a day</th><th>interrupted</th><th>wrong</th></tr>
{{range .Outcomes}}<tr><td>{{f0 .Load}}</td><td class="word">{{.Policy}}</td><td>{{f1 .MovesAllowed}}</td><td>{{.Seed}}</td><td>{{f2 .Allocated}}</td><td>{{f2 .Fragmented}}</td><td>{{f2 .OfFree}}</td><td>{{f2 .Broken}}</td><td>{{f2 .Served}}</td><td>{{f2 .CPU}}</td><td>{{f2 .Memory}}</td><td>{{f2 .CPUFragmented}}</td><td>{{f2 .MovedPerDay}}</td><td>{{f2 .Interrupted}}</td><td>{{.RefusedThoughFit}}</td></tr>
{{end}}</table>
<h2>Fragmented at equal allocation</h2>
<table><tr><th>allocated</th>{{range .Names}}<th>{{.}}</th>{{end}}</tr>
{{$names := .Names}}{{range $b := .Bands}}<tr><td>{{.Allocated}}</td>{{range $names}}<td>{{with index $b.Fragmented .}}{{f2 .}}{{end}}</td>{{end}}</tr>
{{end}}</table>
`
