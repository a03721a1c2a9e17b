package colocation

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/internal/report"
)

// WriteHTML writes the experiment as one page that needs nothing else.
func (res *Result) WriteHTML(w io.Writer) error {
	return report.Write(w, "colocation", body, nil, res.pictures())
}

// pictures is what the page shows.
type pictures struct {
	*Result

	Use, Missed, MissedHilbert, Evicted, Rise template.HTML
	Names                                     []string
}

// Colours of the lines: they differ in lightness too.
const (
	colourHilbert = "#1b6ca8"
	colourNaive   = "#c8452b"
	colourBefore  = "#7a7a7a"
	colourOnline  = "#2a9d57"
	colourLent    = "#a8c8e4"
)

func (res *Result) pictures() *pictures {
	p := &pictures{Result: res, Names: slices.Sorted(maps.Keys(res.Ablations))}
	by := make(map[Mode]*Outcome)
	for _, v := range res.Variants {
		by[v.Mode] = v
	}
	whole := func(x *Point) float64 { return x.Online + x.Offline }
	missed := func(x *Point) float64 { return x.Missed }
	before, naive, hilbert := by[ModeRequests], by[ModeNaive], by[ModeHilbert]
	if before == nil || naive == nil || hilbert == nil {
		return p
	}
	p.Use = chart("percent of all CPUs busy", 100, false,
		curve{"lent cores (Hilbert)", colourLent, hilbert, func(x *Point) float64 { return x.Lent }},
		curve{"services alone (Hilbert)", colourOnline, hilbert, func(x *Point) float64 { return x.Online }},
		curve{"requests only", colourBefore, before, whole}, curve{"naive", colourNaive, naive, whole}, curve{"Hilbert", colourHilbert, hilbert, whole})
	p.Missed = chart("percent of services that missed their target", 0, false,
		curve{"requests only", colourBefore, before, missed}, curve{"naive", colourNaive, naive, missed}, curve{"Hilbert", colourHilbert, hilbert, missed})
	p.MissedHilbert = chart("the same without naive: percent of services", 0, false,
		curve{"requests only", colourBefore, before, missed}, curve{"Hilbert", colourHilbert, hilbert, missed})
	p.Evicted = chart("evictions in a quarter of an hour", 0, true,
		curve{"Hilbert", colourHilbert, hilbert, func(x *Point) float64 { return float64(x.Evictions) }})
	if t := res.Together; t != nil {
		p.Rise = chart("all services rise together: percent of all CPUs, and of services that missed", 100, false,
			curve{"lent", colourLent, t.Outcome, func(x *Point) float64 { return x.Lent }},
			curve{"services", colourOnline, t.Outcome, func(x *Point) float64 { return x.Online }},
			curve{"all", colourHilbert, t.Outcome, whole}, curve{"missed", colourNaive, t.Outcome, missed})
	}
	return p
}

// curve is a line of a chart.
type curve struct {
	name, colour string
	of           *Outcome
	value        func(*Point) float64
}

// Sizes of a chart in pixels, and what minutes are put together.
const (
	chartWidth, chartHeight            = 920, 260
	marginLeft, marginTop, marginUnder = 46, 12, 24
	binMinutes                         = 15
)

// bins are means, or sums, over a quarter of an hour.
func (c *curve) bins(sum bool) (at []int, values []float64) {
	width := binMinutes
	if s := c.of.Series; len(s) < 8*60 { // a short day shows its minutes
		width = 1
	}
	for i := 0; i < len(c.of.Series); i += width {
		end := min(i+width, len(c.of.Series))
		v := 0.0
		for k := i; k < end; k++ {
			v += c.value(&c.of.Series[k])
		}
		if !sum {
			v /= float64(end - i)
		}
		at, values = append(at, c.of.Series[i].Minute), append(values, v)
	}
	return at, values
}

// chart draws curves as SVG. A top of 0 is found from the curves.
func chart(title string, top float64, sum bool, curves ...curve) template.HTML {
	first, last, highest := 1<<30, 1, 0.0
	for i := range curves {
		at, values := curves[i].bins(sum)
		if len(at) == 0 {
			return ""
		}
		first, last, highest = min(first, at[0]), max(last, at[len(at)-1]), max(highest, slices.Max(values))
	}
	top = cmp.Or(top, highest*1.1, 1)
	span := float64(max(last-first, 1))
	x := func(minute int) float64 { return marginLeft + float64(minute-first)/span*(chartWidth-marginLeft-8) }
	y := func(v float64) float64 { return chartHeight - marginUnder - v/top*(chartHeight-marginUnder-marginTop) }
	f := report.NewFigure(title, chartWidth, chartHeight)
	for i := range 5 {
		v := top * float64(i) / 4
		f.Row(marginLeft, chartWidth-8, y(v), fmt.Sprintf("%.3g", v))
	}
	every := max(1, int(span)/8/60) * 60
	if span < 8*60 {
		every = 30
	}
	for m := (first + every - 1) / every * every; m <= last; m += every {
		f.Under(x(m), chartHeight-6, clock(m))
	}
	for i := range curves {
		at, values := curves[i].bins(sum)
		f.Curve(curves[i].colour, len(at), func(k int) (float64, float64) { return x(at[k]), y(min(values[k], top)) })
		f.Legend(curves[i].colour, curves[i].name)
	}
	return f.HTML("")
}

func clock(minute int) string {
	return midnight().Add(time.Duration(minute) * time.Minute).Format("15:04")
}

const body = `<h1>Offline work on what online services leave</h1>
<p>{{.Setup.Nodes}} modelled nodes, {{f1 .Setup.Hours}} h, seed {{.Setup.Seed}}. Tides: {{.Setup.Tide}}; {{.Setup.Use}}. Jobs: {{.Setup.Jobs}}.
The machine model and what it leaves out: ADR 0009.</p>
<div class="big"><div>busy before<b>{{f1 .UtilisationBefore}} %</b></div><div>busy with Hilbert<b>{{f1 .UtilisationAfter}} %</b></div>
<div>targets missed<b>{{f2 .SLOMissPercent}} %</b></div><div>missed, naive<b>{{f2 .NaiveSLOMissPercent}} %</b></div><div>missed before<b>{{f2 .BeforeSLOMissPercent}} %</b></div>
<div>evictions<b>{{.Evictions}}</b></div><div>repeated<b>{{.RepeatEvictions}}</b></div></div>
{{.Use}}{{.Missed}}{{.MissedHilbert}}{{.Evicted}}{{.Rise}}
<h2>Variants</h2>
<table><tr><th></th><th>busy %</th><th>services %</th><th>jobs %</th><th>lent %</th><th>missed %</th><th>evictions</th><th>repeated</th><th>jobs done</th><th>lost %</th></tr>
{{range .Variants}}<tr><td>{{.Name}}</td>{{template "row" .}}</tr>{{end}}</table>
{{if .Names}}<h2>Without one law</h2><p>{{.Setup.AblationNodes}} nodes; all services rise together twice in the day.</p>
<table><tr><th></th><th>busy %</th><th>services %</th><th>jobs %</th><th>lent %</th><th>missed %</th><th>evictions</th><th>repeated</th><th>jobs done</th><th>lost %</th></tr>
{{range .Names}}<tr><td>{{.}}</td>{{template "row" index $.Ablations .}}</tr>{{end}}</table>{{end}}
{{if .Sweep}}<h2>What neighbours cost, times a factor</h2>
<table><tr><th>factor</th><th>busy %</th><th>missed %</th><th>naive busy %</th><th>naive missed %</th></tr>
{{range .Sweep}}<tr><td>{{.Factor}}</td><td>{{f1 .Hilbert.UtilisationPercent}}</td><td>{{f2 .Hilbert.SLOMissPercent}}</td><td>{{f1 .Naive.UtilisationPercent}}</td><td>{{f2 .Naive.SLOMissPercent}}</td></tr>{{end}}</table>{{end}}
{{define "row"}}<td>{{f1 .UtilisationPercent}}</td><td>{{f1 .OnlinePercent}}</td><td>{{f1 .OfflinePercent}}</td><td>{{f1 .LentPercent}}</td><td>{{f2 .SLOMissPercent}}</td><td>{{.Evictions}}</td><td>{{.RepeatEvictions}}</td><td>{{.JobsDone}}</td><td>{{f1 .LostPercent}}</td>{{end}}
`
