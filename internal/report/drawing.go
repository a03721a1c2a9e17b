package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Drawing is an SVG in the making: shapes and words in the order in which they are painted, in pixels from the upper left corner. SVG is written
// nowhere else, so that words are escaped and numbers are short in every picture. For example, a bar with its name:
//
//	var d report.Drawing
//	d.Rect(170, 4, 240, 14, report.Fill("#1b6ca8"), report.Tip("ml/train: 2 GPUs"))
//	d.Text(164, 15, "n1", report.Class("left"))
//	svg := d.SVG(920, 40, "GPUs of n1")
//
// The zero Drawing is empty.
type Drawing struct{ b strings.Builder }

// Point is a position in a drawing.
type Point struct{ X, Y float64 }

// Attribute is an attribute of a shape, or its Tip.
type Attribute struct{ name, value string }

// Attr is any attribute, by its name in SVG.
func Attr(name, value string) Attribute { return Attribute{name, value} }

// Class is the name by which the style of the page knows the shape.
func Class(name string) Attribute { return Attribute{"class", name} }

// Fill is the colour of an area or of words.
func Fill(colour string) Attribute { return Attribute{"fill", colour} }

// Stroke is the colour of a line.
func Stroke(colour string) Attribute { return Attribute{"stroke", colour} }

// StrokeWidth is the width of a line.
func StrokeWidth(width float64) Attribute { return number("stroke-width", width) }

// Anchor says where words stand: "start" begins at x, "middle" is centred there, "end" ends there.
func Anchor(where string) Attribute { return Attribute{"text-anchor", where} }

// FontSize is the size of words.
func FontSize(size float64) Attribute { return number("font-size", size) }

// Bold makes words bold.
func Bold() Attribute { return Attribute{"font-weight", "bold"} }

// Tip is what a browser shows while the pointer is on the shape.
func Tip(words string) Attribute { return Attribute{"", words} }

// number is an attribute in pixels, to a tenth.
func number(name string, value float64) Attribute {
	return Attribute{name, strconv.FormatFloat(math.Round(value*10)/10, 'f', -1, 64)}
}

// Line draws a straight line.
func (d *Drawing) Line(x1, y1, x2, y2 float64, as ...Attribute) {
	d.shape("line", []Attribute{number("x1", x1), number("y1", y1), number("x2", x2), number("y2", y2)}, as)
}

// Rect draws a rectangle.
func (d *Drawing) Rect(x, y, width, height float64, as ...Attribute) {
	d.shape("rect", []Attribute{number("x", x), number("y", y), number("width", width), number("height", height)}, as)
}

// Circle draws a dot.
func (d *Drawing) Circle(x, y, radius float64, as ...Attribute) {
	d.shape("circle", []Attribute{number("cx", x), number("cy", y), number("r", radius)}, as)
}

// Curve draws a line through points.
func (d *Drawing) Curve(points []Point, as ...Attribute) { d.path(points, "", as) }

// Area fills what lies between points.
func (d *Drawing) Area(points []Point, as ...Attribute) { d.path(points, "Z", as) }

func (d *Drawing) path(points []Point, end string, as []Attribute) {
	if len(points) == 0 {
		return
	}
	var way strings.Builder
	for i, p := range points {
		way.WriteByte("ML"[min(i, 1)])
		way.WriteString(number("", p.X).value + " " + number("", p.Y).value)
	}
	d.shape("path", []Attribute{{"d", way.String() + end}}, as)
}

// Text writes words; y is their base line.
func (d *Drawing) Text(x, y float64, words string, as ...Attribute) {
	d.open("text", []Attribute{number("x", x), number("y", y)}, as)
	d.b.WriteString(template.HTMLEscapeString(words) + "</text>")
}

// Heading writes words whose first ones have a style of their own; y is their base line.
func (d *Drawing) Heading(x, y float64, first, style, rest string) {
	d.open("text", []Attribute{number("x", x), number("y", y)}, nil)
	d.open("tspan", []Attribute{{"style", style}}, nil)
	d.b.WriteString(template.HTMLEscapeString(first) + "</tspan> " + template.HTMLEscapeString(rest) + "</text>")
}

// Group holds the shapes that draw draws together.
func (d *Drawing) Group(draw func(), as ...Attribute) {
	d.open("g", nil, as)
	draw()
	d.b.WriteString("</g>")
}

// Link makes the shapes that draw draws lead to another page.
func (d *Drawing) Link(to string, draw func()) {
	d.open("a", []Attribute{{"href", to}}, nil)
	draw()
	d.b.WriteString("</a>")
}

// shape writes an element, and its tip in it.
func (d *Drawing) shape(element string, place, as []Attribute) {
	tip := d.begin(element, place, as)
	if tip == "" {
		d.b.WriteString("/>")
		return
	}
	d.b.WriteString("><title>" + template.HTMLEscapeString(tip) + "</title></" + element + ">")
}

func (d *Drawing) open(element string, place, as []Attribute) {
	d.begin(element, place, as)
	d.b.WriteString(">")
}

func (d *Drawing) begin(element string, place, as []Attribute) (tip string) {
	d.b.WriteString("<" + element)
	for _, list := range [...][]Attribute{place, as} {
		for _, a := range list {
			if a.name == "" {
				tip = a.value
				continue
			}
			d.b.WriteString(" " + a.name + `="` + template.HTMLEscapeString(a.value) + `"`)
		}
	}
	return tip
}

// SVG is the picture as part of a page. The description is what a screen reader says of it.
func (d *Drawing) SVG(width, height float64, description string, as ...Attribute) template.HTML {
	var all Drawing
	all.open("svg", []Attribute{{"viewBox", fmt.Sprintf("0 0 %g %g", width, height)}, {"role", "img"}, {"aria-label", description}}, as)
	return template.HTML(all.b.String() + d.b.String() + "</svg>") //nolint:gosec // words and attributes are escaped where they are written
}

// File is the picture as a file of its own, on white.
func (d *Drawing) File(width, height float64) string {
	var all Drawing
	all.open("svg", []Attribute{
		{"xmlns", "http://www.w3.org/2000/svg"}, number("width", width), number("height", height), {"viewBox", fmt.Sprintf("0 0 %g %g", width, height)},
	}, []Attribute{{"font-family", "sans-serif"}, FontSize(12)})
	all.Rect(0, 0, width, height, Fill("#fff"))
	return all.b.String() + d.b.String() + "</svg>\n"
}
