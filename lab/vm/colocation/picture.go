package colocation

import (
	"fmt"
	"html"
	"slices"
	"strings"
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
	var b strings.Builder
	width, total := panelsAside*panelWidth+2*margin, rows*height+3*margin+lineHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", width, total)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, total)
	fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="15" font-weight="bold">%s</text>`+"\n", margin, margin+12, html.EscapeString(r.Title))
	for i, m := range measures {
		r.panel(&b, m, margin+i%panelsAside*panelWidth, 2*margin+lineHeight+i/panelsAside*height)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (r *Result) panel(b *strings.Builder, m Measure, x, y int) {
	most := 0.0
	for _, a := range r.Arms {
		most = max(most, slices.Max(append(r.values(a.Name, m.Of), 0)))
	}
	if most == 0 {
		most = 1
	}
	left, right := float64(x+nameWidth), float64(x+panelWidth-2*margin)
	at := func(v float64) float64 { return left + v/most*(right-left) }
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", x, y+14, html.EscapeString(m.Title))
	bottom := y + panelHead + lineHeight*len(r.Arms)
	for i := range ticks + 1 {
		v := most * float64(i) / ticks
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`, at(v), at(v), y+panelHead-12, bottom-8)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#666" font-size="10" text-anchor="middle">%s</text>`+"\n", at(v), bottom+6, number(v))
	}
	for i, a := range r.Arms {
		line := y + panelHead + lineHeight*i
		fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", x, line+4, html.EscapeString(a.Title))
		for _, v := range r.values(a.Name, m.Of) {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%d" r="%g" fill="#2563eb" fill-opacity="0.45"/>`, at(v), line, dot)
		}
		median := at(r.Of(a.Name, m.Of).Median)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#b91c1c" stroke-width="2.5"/>`+"\n", median, median, line-8, line+8)
	}
}
