package report

import (
	"fmt"
	"html/template"
	"strings"
)

// Figure is a picture in the making: an SVG with a caption, in pixels from the upper left corner. For example, a curve over a grid:
//
//	f := report.NewFigure("busy nodes, percent", 920, 240)
//	f.Row(46, 912, 120, "50")
//	f.Curve("#1b6ca8", 3, func(i int) (x, y float64) { return xs[i], ys[i] })
//	f.Legend("#1b6ca8", "Hilbert")
//	html := f.HTML("")
//
// Names and titles are escaped.
type Figure struct {
	title, legend strings.Builder
	picture       strings.Builder
}

// NewFigure begins a picture.
func NewFigure(title string, width, height int) *Figure {
	f := &Figure{}
	f.title.WriteString(template.HTMLEscapeString(title))
	fmt.Fprintf(&f.picture, `<figure><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height, f.title.String())
	return f
}

// Row draws a horizontal line of the grid from x1 to x2, and its label left of it.
func (f *Figure) Row(x1, x2 int, y float64, label string) {
	fmt.Fprintf(&f.picture, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" class="left">%s</text>`,
		x1, x2, y, y, x1-6, y+4, template.HTMLEscapeString(label))
}

// Column draws a vertical line of the grid from the top down to y, and its label at the given height.
func (f *Figure) Column(x float64, y, labelY int, label string) {
	fmt.Fprintf(&f.picture, `<line class="grid" x1="%.1f" x2="%.1f" y1="0" y2="%d"/>`, x, x, y)
	f.Under(x, labelY, label)
}

// Under writes a word below the picture, centred at x.
func (f *Figure) Under(x float64, y int, label string) {
	fmt.Fprintf(&f.picture, `<text x="%.1f" y="%d" class="under">%s</text>`, x, y, template.HTMLEscapeString(label))
}

// Left writes a word that ends at x.
func (f *Figure) Left(x, y int, label string) {
	fmt.Fprintf(&f.picture, `<text class="left" x="%d" y="%d">%s</text>`, x, y, template.HTMLEscapeString(label))
}

// Curve draws a line through n points.
func (f *Figure) Curve(colour string, n int, at func(i int) (x, y float64)) {
	fmt.Fprintf(&f.picture, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colour)
	for i := range n {
		x, y := at(i)
		fmt.Fprintf(&f.picture, "%.1f,%.1f ", x, y)
	}
	f.picture.WriteString(`"/>`)
}

// Bar draws a horizontal bar from x to x+width.
func (f *Figure) Bar(colour string, x, width float64, y, height int) {
	fmt.Fprintf(&f.picture, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, x, y, width, height, colour)
}

// Whisker draws a thin horizontal line: how far a value ranges.
func (f *Figure) Whisker(x1, x2 float64, y int) {
	fmt.Fprintf(&f.picture, `<line class="whisker" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, x1, x2, y, y)
}

// Legend adds a colour and its name to the caption.
func (f *Figure) Legend(colour, name string) {
	fmt.Fprintf(&f.legend, `<span><i style="background:%s"></i>%s</span> `, colour, template.HTMLEscapeString(name))
}

// HTML ends the picture. The caption is the title, the legend and the note.
func (f *Figure) HTML(note string) template.HTML {
	return template.HTML(f.picture.String() + `</svg><figcaption>` + f.title.String() + `: ` + f.legend.String() + //nolint:gosec // all of it was escaped above
		template.HTMLEscapeString(note) + `</figcaption></figure>`)
}
