package colocation

import (
	"slices"

	"hilbert.dev/hilbert/internal/report"
)

// The picture's measures, in pixels: panels side by side and below each other, in each a line for each arm.
const (
	panelWidth, lineHeight, panelHead, panelFoot, nameWidth, margin = 560, 26, 40, 24, 170, 16
	panelsAside, pictured                                           = 2, 8
	dot, ticks                                                      = 3.5, 4
)

// Picture is an SVG: a panel for each of the first measures, a line for each arm, a dot for each round, a bar at the median.
func (r *Result) Picture() string {
	measures := Measures()[:pictured]
	height := panelHead + panelFoot + lineHeight*len(r.Arms)
	rows := (len(measures) + panelsAside - 1) / panelsAside
	width, total := panelsAside*panelWidth+2*margin, rows*height+3*margin+lineHeight
	var d report.Drawing
	d.Text(margin, margin+12, r.Title, report.FontSize(15), report.Bold())
	for i, m := range measures {
		r.panel(&d, m, margin+i%panelsAside*panelWidth, 2*margin+lineHeight+i/panelsAside*height)
	}
	return d.File(float64(width), float64(total))
}

func (r *Result) panel(d *report.Drawing, m Measure, x, y int) {
	most := 0.0
	for _, a := range r.Arms {
		most = max(most, slices.Max(append(r.values(a.Name, m.Of), 0)))
	}
	if most == 0 {
		most = 1
	}
	left, right := float64(x+nameWidth), float64(x+panelWidth-2*margin)
	at := func(v float64) float64 { return left + v/most*(right-left) }
	d.Text(float64(x), float64(y+14), m.Title, report.Bold())
	top, bottom := float64(y+panelHead), float64(y+panelHead+lineHeight*len(r.Arms))
	for i := range ticks + 1 {
		v := most * float64(i) / ticks
		d.Line(at(v), top-12, at(v), bottom-8, report.Stroke("#ddd"))
		d.Text(at(v), bottom+6, number(v), report.Fill("#666"), report.FontSize(10), report.Anchor("middle"))
	}
	for i, a := range r.Arms {
		line := top + float64(lineHeight*i)
		d.Text(float64(x), line+4, a.Title)
		for _, v := range r.values(a.Name, m.Of) {
			d.Circle(at(v), line, dot, report.Fill("#2563eb"), report.Attr("fill-opacity", "0.45"))
		}
		median := at(r.Of(a.Name, m.Of).Median)
		d.Line(median, line-8, median, line+8, report.Stroke("#b91c1c"), report.StrokeWidth(2.5))
	}
}
