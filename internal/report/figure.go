package report

import (
	"html/template"
	"strings"
)

// Figure is a Drawing with a caption, in the style of the pages. For example, a curve over a grid:
//
//	f := report.NewFigure("busy nodes, percent", 920, 240)
//	f.Row(46, 912, 120, "50")
//	f.Curve("#1b6ca8", 3, func(i int) (x, y float64) { return xs[i], ys[i] })
//	f.Legend("#1b6ca8", "Hilbert")
//	html := f.HTML("")
type Figure struct {
	title         string
	width, height float64
	drawing       Drawing
	legend        strings.Builder
}

// NewFigure begins a picture.
func NewFigure(title string, width, height int) *Figure {
	return &Figure{title: title, width: float64(width), height: float64(height)}
}

// Row draws a horizontal line of the grid from x1 to x2, and its label left of it.
func (f *Figure) Row(x1, x2 int, y float64, label string) {
	f.drawing.Line(float64(x1), y, float64(x2), y, Class("grid"))
	f.drawing.Text(float64(x1-6), y+4, label, Class("left"))
}

// Column draws a vertical line of the grid from the top down to y, and its label at the given height.
func (f *Figure) Column(x float64, y, labelY int, label string) {
	f.drawing.Line(x, 0, x, float64(y), Class("grid"))
	f.Under(x, labelY, label)
}

// Under writes a word below the picture, centred at x.
func (f *Figure) Under(x float64, y int, label string) {
	f.drawing.Text(x, float64(y), label, Class("under"))
}

// Left writes a word that ends at x.
func (f *Figure) Left(x, y int, label string) {
	f.drawing.Text(float64(x), float64(y), label, Class("left"))
}

// Curve draws a line through n points.
func (f *Figure) Curve(colour string, n int, at func(i int) (x, y float64)) {
	points := make([]Point, n)
	for i := range points {
		points[i].X, points[i].Y = at(i)
	}
	f.drawing.Curve(points, Fill("none"), Stroke(colour), StrokeWidth(2))
}

// Bar draws a horizontal bar of a height from x to x+width; at is its upper left corner.
func (f *Figure) Bar(colour string, at Point, width, height float64, as ...Attribute) {
	f.drawing.Rect(at.X, at.Y, width, height, append([]Attribute{Fill(colour)}, as...)...)
}

// Whisker draws a thin horizontal line: how far a value ranges.
func (f *Figure) Whisker(x1, x2 float64, y int) {
	f.drawing.Line(x1, float64(y), x2, float64(y), Class("whisker"))
}

// Legend adds a colour and its name to the caption.
func (f *Figure) Legend(colour, name string) {
	f.legend.WriteString(`<span><i style="background:` + template.HTMLEscapeString(colour) + `"></i>` + template.HTMLEscapeString(name) + `</span> `)
}

// HTML ends the picture. The caption is the title, the legend and the note.
func (f *Figure) HTML(note string) template.HTML {
	return `<figure>` + f.drawing.SVG(f.width, f.height, f.title) + `<figcaption>` +
		template.HTML(template.HTMLEscapeString(f.title)+`: `+f.legend.String()+template.HTMLEscapeString(note)) + //nolint:gosec // all of it is escaped
		`</figcaption></figure>`
}
