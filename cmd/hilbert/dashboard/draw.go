package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"

	"hilbert.dev/hilbert/internal/report"
)

// Measure is what the map of the nodes shows.
type Measure struct {
	Name, Says string
	// Of is a part of the node, false where it is not known.
	Of func(*Node) (float64, bool)
}

var measures = []Measure{
	{"allocated", "CPUs that pods request, reclaimed pods aside", func(n *Node) (float64, bool) {
		return part(n.Requested.MilliCPU, n.All.MilliCPU), n.All.MilliCPU > 0
	}},
	{"used", "CPUs in use, without reclaimed pods", func(n *Node) (float64, bool) {
		return part(n.Used.MilliCPU, n.All.MilliCPU), n.UsedKnown && n.All.MilliCPU > 0
	}},
	{"lent", "CPUs that reclaimed pods request", func(n *Node) (float64, bool) {
		return part(n.Lent.MilliCPU, n.All.MilliCPU), n.All.MilliCPU > 0
	}},
	{"memory", "memory that pods request", func(n *Node) (float64, bool) {
		return part(n.Requested.Memory, n.All.Memory), n.All.Memory > 0
	}},
	{"gpu", "GPUs that pods request", func(n *Node) (float64, bool) {
		return part(n.Requested.MilliGPU, n.All.MilliGPU), n.All.MilliGPU > 0
	}},
}

// measureNamed is the measure of a name; the first for others.
func measureNamed(name string) Measure {
	for _, m := range measures {
		if m.Name == name {
			return m
		}
	}
	return measures[0]
}

// Sizes of the pictures. Pictures have no colours of their own: the style sheet has them, for light and dark.
const (
	pictureWidth = 920
	steps        = 10 // colours of the map, beside that of what is not known
	chartHeight  = 180
	chartLeft    = 44
	chartUnder   = 22
	barWidth     = 640
	barHeight    = 22
	barLeft      = 150
)

// cellSize is how large a node's cell is: the map of 20,000 nodes is still a thousand pixels high at the most.
func cellSize(nodes int) int {
	switch {
	case nodes <= 200:
		return 28
	case nodes <= 2000:
		return 14
	case nodes <= 8000:
		return 9
	}
	return 6
}

// drawMap draws a cell for each node, in the order of their names.
func drawMap(nodes []Node, by Measure) template.HTML {
	var d report.Drawing
	size := cellSize(len(nodes))
	columns := pictureWidth / size
	for i := range nodes {
		n := &nodes[i]
		class, says := "unknown", "not known"
		if v, known := by.Of(n); known {
			class, says = "s"+strconv.Itoa(min(int(max(v, 0)*steps), steps-1)), fmt.Sprintf("%.0f %%", 100*v)
		}
		if n.Unschedulable {
			class += " cordoned"
		}
		if len(n.Evictions) > 0 {
			class += " evicting"
		}
		d.Link("/nodes/"+url.PathEscape(n.Name), func() {
			d.Rect(float64(i%columns*size), float64(i/columns*size), float64(size-1), float64(size-1), report.Class(class), report.Tip(n.Name+": "+says))
		})
	}
	rows := (len(nodes) + columns - 1) / columns
	return d.SVG(pictureWidth, float64(max(rows, 1)*size), "nodes by "+by.Name)
}

// bar is a part of a resource.
type bar struct {
	class, says string
	of          int64
}

// whole is a resource.
type whole struct {
	name  string
	all   int64
	write func(int64) string // an amount of it
}

// drawBar draws parts of a resource one after the other, under its name.
func drawBar(d *report.Drawing, row int, w whole, parts ...bar) {
	y := float64(row * barHeight)
	d.Text(barLeft-8, y+16, w.name, report.Class("left"))
	d.Rect(barLeft, y+3, barWidth, barHeight-6, report.Class("all"))
	at := 0.0
	for _, p := range parts {
		if width := min(part(p.of, w.all)*barWidth, barWidth-at); width > 0 {
			d.Rect(barLeft+at, y+3, width, barHeight-6, report.Class(p.class), report.Tip(p.says+": "+w.write(p.of)+" of "+w.write(w.all)))
			at += width
		}
	}
	d.Text(barLeft+barWidth+8, y+16, "of "+w.write(w.all))
}

// drawTotals draws what the cluster's resources are used for.
func drawTotals(t *Totals) template.HTML {
	var d report.Drawing
	rows := 3
	drawBar(&d, 0, whole{"CPU requested, lent", t.All.MilliCPU, cpus}, bar{"requested", "requested", t.Requested.MilliCPU}, bar{"lent", "lent", t.Lent.MilliCPU})
	drawBar(&d, 1, whole{"CPU used", t.UsedOf.MilliCPU, cpus}, bar{"used", "used, without reclaimed pods", t.Used.MilliCPU})
	drawBar(&d, 2, whole{"memory", t.All.Memory, bytesOf}, bar{"requested", "requested", t.Requested.Memory}, bar{"lent", "lent", t.Lent.Memory})
	if t.All.MilliGPU > 0 {
		drawBar(&d, rows, whole{"GPU", t.All.MilliGPU, cpus}, bar{"requested", "requested", t.Requested.MilliGPU})
		rows++
	}
	return d.SVG(pictureWidth, float64(rows*barHeight), "what the cluster's resources are used for")
}

// drawNode draws the same of one node.
func drawNode(n *Node) template.HTML {
	t := Totals{All: n.All, Requested: n.Requested, Lent: n.Lent}
	if n.UsedKnown {
		t.Used, t.UsedOf = n.Used, n.All
	}
	return drawTotals(&t)
}

// drawHistory draws the parts of all CPUs over time.
func drawHistory(h history) template.HTML {
	var d report.Drawing
	y := func(v float64) float64 {
		return chartHeight - chartUnder - min(max(v, 0), 1)*(chartHeight-chartUnder-8)
	}
	for percent := 0; percent <= 100; percent += 25 {
		at := y(float64(percent) / 100)
		d.Line(chartLeft, at, pictureWidth, at, report.Class("grid"))
		d.Text(chartLeft-6, at+4, fmt.Sprintf("%d %%", percent), report.Class("left"))
	}
	if len(h) < 2 {
		d.Text(chartLeft+10, chartHeight/2, "The history begins with the second state.")
		return d.SVG(pictureWidth, chartHeight, "the history")
	}
	first, last := h[0].At, h[len(h)-1].At
	x := func(i int) float64 {
		return chartLeft + (pictureWidth-chartLeft)*h[i].At.Sub(first).Seconds()/math.Max(last.Sub(first).Seconds(), 1e-9)
	}
	line := func(class string, of func(*Sample) (float64, bool)) {
		var known []report.Point
		for i := range h {
			if v, ok := of(&h[i]); ok {
				known = append(known, report.Point{X: x(i), Y: y(v)})
				continue
			}
			d.Curve(known, report.Class("line "+class)) // and a gap
			known = nil
		}
		d.Curve(known, report.Class("line "+class))
	}
	line("requested", func(s *Sample) (float64, bool) { return s.Requested, true })
	line("used", func(s *Sample) (float64, bool) { return s.Used, s.UsedKnown })
	line("lent", func(s *Sample) (float64, bool) { return s.Lent, true })
	d.Text(chartLeft, chartHeight-6, first.Format("15:04:05"))
	d.Text(pictureWidth, chartHeight-6, last.Format("15:04:05"), report.Class("left"))
	return d.SVG(pictureWidth, chartHeight, "parts of all CPUs over time")
}
