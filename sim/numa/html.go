package numa

import (
	"fmt"
	"html/template"
	"io"
	"strconv"

	"hilbert.dev/hilbert/internal/report"
)

// WriteHTML writes the experiment as one page that needs nothing else.
func (r *Result) WriteHTML(w io.Writer) error {
	return report.Write(w, "NUMA", body, nil, struct {
		*Result

		Shared, Exclusive template.HTML
	}{r, r.tornado(0), r.tornado(1)})
}

// Sizes of a picture in pixels.
const (
	pictureWidth = 920
	rowHeight    = 20
	nameWidth    = 170
)

// tornado draws how a gain in the mean and at p99 moves with each parameter. Bars are cut at -20 and 80 percent.
func (r *Result) tornado(pair int) template.HTML {
	const lowest, highest = -20, 80
	points := append([]Point{{Name: fmt.Sprintf("%d seeds", r.Setup.Seeds), Gains: r.Gains, Busy: r.busiest()}}, r.Sweep...)
	x := func(v float64) float64 {
		return nameWidth + (min(max(v, lowest), highest)-lowest)/(highest-lowest)*(pictureWidth-nameWidth-10)
	}
	g := r.Gains[pair]
	title := fmt.Sprintf("%s from %s: latency falls by, percent", g.Of, g.Against)
	height := rowHeight * (len(points) + 2)
	f := report.NewFigure(title, pictureWidth, height)
	for v := lowest; v <= highest; v += 20 {
		f.Column(x(float64(v)), height-rowHeight, height-6, strconv.Itoa(v))
	}
	colours := [...]string{"#1b6ca8", "#c8852b"}
	for i := range points {
		p, y := &points[i], i*rowHeight+4
		gain := p.Gains[pair]
		f.Left(nameWidth-8, y+11, p.Name)
		for k, s := range []Spread{gain.Mean, gain.P99} {
			from, to := x(min(s.Mean, 0)), x(max(s.Mean, 0))
			f.Bar(colours[k], report.Point{X: from, Y: float64(y + 7*k)}, to-from, 6)
			f.Whisker(x(s.Min), x(s.Max), y+7*k+3)
		}
	}
	f.Legend(colours[0], "mean")
	f.Legend(colours[1], "p99")
	return f.HTML("thin lines from the least to the most of the seeds")
}

const body = `<h1>Cores and memory in the same NUMA nodes</h1>
<p>A model, not a measurement: {{.Setup.Seeds}} seeds of {{.Setup.Nodes}} machines with {{.Setup.Machine.Sockets}} sockets of {{.Setup.Machine.NUMANodes}} NUMA nodes.
Its formulas and figures stand in package sim/numa. Published by others, on their machines: mean {{f1 .Published.MeanPercent}} %, p99 {{f1 .Published.P99Percent}} %.</p>
<table><tr><th></th><th>mean ms</th><th>p50</th><th>p99</th><th>local %</th><th>same socket %</th><th>other socket %</th><th>split %</th><th>link %</th><th>busy %</th></tr>
{{range .Mean}}<tr><td>{{.Placement}}</td><td>{{f2 .Latency.Mean}}</td><td>{{f2 .Latency.P50}}</td><td>{{f2 .Latency.P99}}</td><td>{{f1 .Local}}</td><td>{{f1 .Near}}</td><td>{{f1 .Far}}</td><td>{{f1 .Split}}</td><td>{{f1 .Link}}</td><td>{{f1 .Busy}}</td></tr>
{{end}}</table>
<p>stock: shared CPUs, memory everywhere. static: exclusive cores without a topology manager. zoned: shared CPUs of the granted NUMA nodes (a bound shared pod). bound: exclusive cores and memory of the granted NUMA nodes (a bound dedicated pod).</p>
{{.Shared}}{{.Exclusive}}
<h2>All figures</h2>
<table><tr><th></th>{{range .Gains}}<th>{{.Of}} from {{.Against}}: mean</th><th>p99</th>{{end}}<th>busiest %</th></tr>
<tr><td>{{.Setup.Seeds}} seeds</td>{{range .Gains}}<td>{{.Mean}}</td><td>{{.P99}}</td>{{end}}<td></td></tr>
{{range .Sweep}}<tr><td>{{.Name}}</td>{{range .Gains}}<td>{{.Mean}}</td><td>{{.P99}}</td>{{end}}<td>{{f1 .Busy}}</td></tr>
{{end}}</table>`
