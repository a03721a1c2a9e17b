package dashboard

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
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

// svg frames a picture.
func svg(height int, title, shapes string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %d %d" role="img" aria-label="%s">%s</svg>`, pictureWidth, height, html.EscapeString(title), shapes)) //nolint:gosec // every text in it is escaped
}

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
	size := cellSize(len(nodes))
	columns := max(pictureWidth/size, 1)
	var b strings.Builder
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
		fmt.Fprintf(&b, `<a href="/nodes/%s"><rect class="%s" x="%d" y="%d" width="%d" height="%d"><title>%s: %s</title></rect></a>`,
			html.EscapeString(url.PathEscape(n.Name)), class, i%columns*size, i/columns*size, size-1, size-1, html.EscapeString(n.Name), says)
	}
	rows := (len(nodes) + columns - 1) / columns
	return svg(max(rows, 1)*size, "nodes by "+by.Name, b.String())
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
func drawBar(b *strings.Builder, y int, w whole, parts ...bar) {
	all, write := w.all, w.write
	fmt.Fprintf(b, `<text class="left" x="%d" y="%d">%s</text><rect class="all" x="%d" y="%d" width="%d" height="%d"/>`,
		barLeft-8, y+16, html.EscapeString(w.name), barLeft, y+3, barWidth, barHeight-6)
	at := 0.0
	for _, p := range parts {
		width := min(part(p.of, all)*barWidth, barWidth-at)
		if width <= 0 {
			continue
		}
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s: %s of %s</title></rect>`,
			p.class, barLeft+at, y+3, width, barHeight-6, html.EscapeString(p.says), html.EscapeString(write(p.of)), html.EscapeString(write(all)))
		at += width
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">of %s</text>`, barLeft+barWidth+8, y+16, html.EscapeString(write(all)))
}

// drawTotals draws what the cluster's resources are used for.
func drawTotals(t *Totals) template.HTML {
	var b strings.Builder
	drawBar(&b, 0, whole{"CPU requested, lent", t.All.MilliCPU, cpus}, bar{"requested", "requested", t.Requested.MilliCPU}, bar{"lent", "lent", t.Lent.MilliCPU})
	drawBar(&b, barHeight, whole{"CPU used", t.UsedOf.MilliCPU, cpus}, bar{"used", "used, without reclaimed pods", t.Used.MilliCPU})
	drawBar(&b, 2*barHeight, whole{"memory", t.All.Memory, bytesOf}, bar{"requested", "requested", t.Requested.Memory}, bar{"lent", "lent", t.Lent.Memory})
	rows := 3
	if t.All.MilliGPU > 0 {
		drawBar(&b, rows*barHeight, whole{"GPU", t.All.MilliGPU, cpus}, bar{"requested", "requested", t.Requested.MilliGPU})
		rows++
	}
	return svg(rows*barHeight, "what the cluster's resources are used for", b.String())
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
	var b strings.Builder
	y := func(v float64) float64 {
		return chartHeight - chartUnder - min(max(v, 0), 1)*(chartHeight-chartUnder-8)
	}
	for v := 0; v <= 100; v += 25 {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="left" x="%d" y="%.1f">%d %%</text>`,
			chartLeft, pictureWidth, y(float64(v)/100), y(float64(v)/100), chartLeft-6, y(float64(v)/100)+4, v)
	}
	if len(h) < 2 {
		fmt.Fprintf(&b, `<text x="%d" y="%d">The history begins with the second state.</text>`, chartLeft+10, chartHeight/2)
		return svg(chartHeight, "the history", b.String())
	}
	first, last := h[0].At, h[len(h)-1].At
	x := func(i int) float64 {
		return chartLeft + (pictureWidth-chartLeft)*h[i].At.Sub(first).Seconds()/math.Max(last.Sub(first).Seconds(), 1e-9)
	}
	line := func(class string, of func(*Sample) (float64, bool)) {
		var path strings.Builder
		pen := "M"
		for i := range h {
			v, known := of(&h[i])
			if !known {
				pen = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", pen, x(i), y(v))
			pen = "L"
		}
		fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`, class, path.String())
	}
	line("requested", func(s *Sample) (float64, bool) { return s.Requested, true })
	line("used", func(s *Sample) (float64, bool) { return s.Used, s.UsedKnown })
	line("lent", func(s *Sample) (float64, bool) { return s.Lent, true })
	fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text><text class="left" x="%d" y="%d">%s</text>`,
		chartLeft, chartHeight-6, first.Format("15:04:05"), pictureWidth, chartHeight-6, last.Format("15:04:05"))
	return svg(chartHeight, "parts of all CPUs over time", b.String())
}
