package report

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestDrawing: a picture is XML, its words are escaped, and its numbers have at most one decimal.
func TestDrawing(t *testing.T) {
	var d Drawing
	d.Line(1, 2, 3.14159, 4, Class("grid"))
	d.Rect(0, 0, 10, 5, Fill(`"red"`), Tip("<tip>"))
	d.Circle(1, 1, 3.5)
	d.Curve([]Point{{1, 2}, {3, 4}}, Stroke("#111"), StrokeWidth(1.6))
	d.Area([]Point{{1, 2}, {3, 4}, {5, 6}})
	d.Area(nil)
	d.Group(func() { d.Text(1, 2, "a & b", Anchor("end"), FontSize(10), Bold()) }, Attr("id", "g"))
	d.Link(`/nodes/"n"`, func() { d.Rect(7, 8, 9, 10) })
	d.Heading(4, 16, "n<1>", "fill:#222", "owner hilbert")
	for _, text := range []string{string(d.SVG(920, 40, `"a" < b`)), d.File(920, 40)} {
		for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v:\n%s", err, text)
			}
		}
		for _, want := range []string{
			`<line x1="1" y1="2" x2="3.1" y2="4" class="grid"/>`, `fill="&#34;red&#34;"><title>&lt;tip&gt;</title></rect>`, `d="M1 2L3 4"`, `d="M1 2L3 4L5 6Z"`,
			`<g id="g"><text x="1" y="2" text-anchor="end" font-size="10" font-weight="bold">a &amp; b</text></g>`, `n&lt;1&gt;</tspan> owner hilbert</text>`,
			`<a href="/nodes/&#34;n&#34;"><rect x="7" y="8" width="9" height="10"/></a>`,
		} {
			if strings.Count(text, want) != 1 {
				t.Errorf("the picture has not once %s:\n%s", want, text)
			}
		}
	}
}
