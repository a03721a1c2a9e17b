package report

import (
	"html/template"
	"slices"

	draw "hilbert.dev/hilbert/internal/report"
)

// The drawing's size and margins, in units of its view box. A panel is about as wide as a phone, so that one drawing serves both
// a column of a wide page and a whole narrow one with letters of the same size.
const (
	panelWidth, panelHeight             = 384.0, 208.0
	marginLeft, marginRight             = 44.0, 14.0
	marginTop, marginBottom             = 14.0, 26.0
	plotLeft, plotRight                 = marginLeft, panelWidth - marginRight
	plotTop, plotBottom                 = marginTop, panelHeight - marginBottom
	markerLabelHeight, markerLabelWidth = 13.0, 74.0
)

// panel is one chart being drawn.
type panel struct {
	drawing draw.Drawing
	x, y    scale
}

// newPanel draws the grid and the labels of both axes.
func newPanel(x, y scale) *panel {
	p := &panel{x: x, y: y}
	p.x.from, p.x.to = plotLeft, plotRight
	p.y.from, p.y.to = plotBottom, plotTop
	for i, t := range p.y.ticks {
		class := "grid"
		if i == 0 {
			class = "axis"
		}
		y := p.y.at(t.at)
		p.drawing.Line(plotLeft, y, plotRight, y, draw.Class(class))
		p.drawing.Text(plotLeft-8, y, t.label, draw.Class("tick"), draw.Attr("dy", ".32em"), draw.Anchor("end"))
	}
	for _, t := range p.x.ticks {
		x := p.x.at(t.at)
		anchor := "middle"
		if x > plotRight-12 {
			anchor = "end"
			x = plotRight + marginRight - 2
		}
		p.drawing.Text(x, panelHeight-8, t.label, draw.Class("tick"), draw.Anchor(anchor))
	}
	return p
}

// band fills the space between two curves over the same x values.
func (p *panel) band(class string, xs, lower, upper []float64) {
	points := p.points(xs, upper)
	for i, x := range slices.Backward(xs) {
		points = append(points, p.point(x, lower[i]))
	}
	p.drawing.Area(points, draw.Class(class))
}

// curve draws a line through points.
func (p *panel) curve(class string, xs, ys []float64) {
	p.drawing.Curve(p.points(xs, ys), draw.Class(class))
}

func (p *panel) points(xs, ys []float64) []draw.Point {
	points := make([]draw.Point, 0, 2*len(xs))
	for i, x := range xs {
		points = append(points, p.point(x, ys[i]))
	}
	return points
}

func (p *panel) point(x, y float64) draw.Point { return draw.Point{X: p.x.at(x), Y: p.y.at(y)} }

// bars draws one bar from each edge to the next. len(edges) = len(heights)+1.
func (p *panel) bars(class string, edges, heights []float64) {
	for i, h := range heights {
		left, right := p.x.at(edges[i]), p.x.at(edges[i+1])
		if h <= 0 || right <= left {
			continue
		}
		gap := min((right-left)*.12, 1)
		top := min(p.y.at(h), plotBottom-.8) // one pod among thousands still shows
		p.drawing.Rect(left+gap/2, top, right-left-gap, plotBottom-top, draw.Class(class))
	}
}

// marker draws a dashed vertical line with a label at the given row from the top, on the side where there is room.
func (p *panel) marker(at float64, label string, row int) {
	x := p.x.at(at)
	y := plotTop + float64(row)*markerLabelHeight
	p.drawing.Line(x, y-6, x, plotBottom, draw.Class("marker"))
	anchor, dx := "start", 5.0
	if x+markerLabelWidth > plotRight {
		anchor, dx = "end", -5.0
	}
	p.drawing.Text(x+dx, y, label, draw.Class("mark"), draw.Attr("dy", ".32em"), draw.Anchor(anchor))
}

// svg closes the drawing with the cross hair, which the page's script moves. The description is what a screen reader says of it.
func (p *panel) svg(id, description string) template.HTML {
	p.drawing.Group(func() { p.drawing.Line(0, plotTop, 0, plotBottom) }, draw.Class("cross"), draw.Attr("hidden", ""))
	return p.drawing.SVG(panelWidth, panelHeight, description, draw.Class("chart"), draw.Attr("id", id), draw.Attr("tabindex", "0"))
}
