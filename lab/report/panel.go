package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
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

// panel is one chart being drawn as SVG.
type panel struct {
	b    strings.Builder
	x, y scale
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
		y := px(p.y.at(t.at))
		fmt.Fprintf(&p.b, `<line class="%s" x1="%s" x2="%s" y1="%s" y2="%s"/>`, class, px(plotLeft), px(plotRight), y, y)
		fmt.Fprintf(&p.b, `<text class="tick" x="%s" y="%s" dy=".32em" text-anchor="end">%s</text>`, px(plotLeft-8), y, t.label)
	}
	for _, t := range p.x.ticks {
		x := p.x.at(t.at)
		anchor := "middle"
		if x > plotRight-12 {
			anchor = "end"
			x = plotRight + marginRight - 2
		}
		fmt.Fprintf(&p.b, `<text class="tick" x="%s" y="%s" text-anchor="%s">%s</text>`, px(x), px(panelHeight-8), anchor, t.label)
	}
	return p
}

// band fills the space between two curves over the same x values.
func (p *panel) band(class string, xs, lower, upper []float64) {
	if len(xs) == 0 {
		return
	}
	fmt.Fprintf(&p.b, `<path class="%s" d="`, class)
	for i, x := range xs {
		p.point(i == 0, x, upper[i])
	}
	for i, x := range slices.Backward(xs) {
		p.point(false, x, lower[i])
	}
	p.b.WriteString(`Z"/>`)
}

// curve draws a line through points.
func (p *panel) curve(class string, xs, ys []float64) {
	if len(xs) == 0 {
		return
	}
	fmt.Fprintf(&p.b, `<path class="%s" d="`, class)
	for i, x := range xs {
		p.point(i == 0, x, ys[i])
	}
	p.b.WriteString(`"/>`)
}

func (p *panel) point(first bool, x, y float64) {
	op := "L"
	if first {
		op = "M"
	}
	p.b.WriteString(op + px(p.x.at(x)) + " " + px(p.y.at(y)))
}

// bars draws one bar from each edge to the next. len(edges) = len(heights)+1.
func (p *panel) bars(class string, edges, heights []float64) {
	for i, h := range heights {
		left, right := p.x.at(edges[i]), p.x.at(edges[i+1])
		if h <= 0 || right <= left {
			continue
		}
		gap := min((right-left)*.12, 1)
		top := min(p.y.at(h), plotBottom-.8) // one pod among thousands still shows
		fmt.Fprintf(&p.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`,
			class, px(left+gap/2), px(top), px(right-left-gap), px(plotBottom-top))
	}
}

// marker draws a dashed vertical line with a label at the given row from the top, on the side where there is room.
func (p *panel) marker(at float64, label string, row int) {
	x := p.x.at(at)
	y := plotTop + float64(row)*markerLabelHeight
	fmt.Fprintf(&p.b, `<line class="marker" x1="%s" x2="%s" y1="%s" y2="%s"/>`, px(x), px(x), px(y-6), px(plotBottom))
	anchor, dx := "start", 5.0
	if x+markerLabelWidth > plotRight {
		anchor, dx = "end", -5.0
	}
	fmt.Fprintf(&p.b, `<text class="mark" x="%s" y="%s" dy=".32em" text-anchor="%s">%s</text>`, px(x+dx), px(y), anchor, template.HTMLEscapeString(label))
}

// svg closes the drawing. The description is what a screen reader says of it.
func (p *panel) svg(id, description string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="chart" id="%s" viewBox="0 0 %g %g" role="img" tabindex="0" aria-label="%s">`+
		`%s<g class="cross" hidden><line y1="%s" y2="%s"/></g></svg>`,
		id, panelWidth, panelHeight, template.HTMLEscapeString(description), p.b.String(), px(plotTop), px(plotBottom)))
}
