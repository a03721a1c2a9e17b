package elastic

import (
	"fmt"

	"hilbert.dev/hilbert/internal/report"
)

// The picture's measures, in pixels.
const (
	pictureWidth, panelHeight, panelGap, side, top = 1100, 210, 56, 60, 70
	timeTicks, valueTicks                          = 12, 4
)

// line is a curve of the picture.
type line struct {
	title, colour string
	of            func(*Sample) float64
}

var lines = []line{
	{"online pods want", "#94a3b8", func(s *Sample) float64 { return s.OnlineWants }},
	{"and get", "#2563eb", func(s *Sample) float64 { return s.OnlineGets }},
	{"reclaimed pods want", "#fdba74", func(s *Sample) float64 { return s.ReclaimedWants }},
	{"and get", "#ea580c", func(s *Sample) float64 { return s.ReclaimedGets }},
	{"headroom", "#16a34a", func(s *Sample) float64 { return s.Headroom }},
}

// Picture is an SVG of how it went: a panel for the nodes of each role, CPUs over time, and below them when pods were evicted and ran again.
func (r *Result) Picture() string {
	roles := []struct{ role, title string }{
		{roleTide, "nodes whose online load rises"},
		{roleCalm, "nodes whose load stays"},
		{roleBlind, "load rises, the kernel shows no counters"},
		{roleKill, "the agent is killed when the load rises elsewhere"},
	}
	var d report.Drawing
	height := top + len(roles)*(panelHeight+panelGap)
	d.Text(side, 24, fmt.Sprintf("Online load of %d of %d nodes rises to %.3g times at 0", r.Options.Tide+r.Options.Blind, r.Options.Nodes, r.Options.High/r.Options.Low),
		report.FontSize(15), report.Bold())
	x := float64(side)
	for _, l := range lines {
		d.Rect(x, 38, 18, 4, report.Fill(l.colour))
		d.Text(x+24, 46, l.title)
		x += 170
	}
	for i, p := range roles {
		r.panel(&d, p.role, p.title, top+i*(panelHeight+panelGap))
	}
	return d.File(pictureWidth, float64(height))
}

// panel draws the nodes of a role.
func (r *Result) panel(d *report.Drawing, role, title string, y int) {
	from, to, most, n := r.Filled, r.Ended, 1.0, 0
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Role == role {
			for _, l := range lines {
				most = max(most, l.of(s))
			}
		}
	}
	named := make(map[string]bool)
	for _, node := range r.Nodes {
		if node.Role == role {
			named[node.Name] = true
			n++
		}
	}
	width := float64(pictureWidth - 2*side)
	across := func(at float64) float64 { return side + (at-from)/max(to-from, 1)*width }
	down := func(v float64) float64 { return float64(y+panelHeight) - v/most*(panelHeight-20) }
	bottom := float64(y + panelHeight)
	small := []report.Attribute{report.Fill("#666"), report.FontSize(10)}
	d.Text(side, float64(y+8), fmt.Sprintf("%s (%d), CPUs", title, n), report.Bold())
	for i := range valueTicks + 1 {
		v := most * float64(i) / valueTicks
		d.Line(side, down(v), pictureWidth-side, down(v), report.Stroke("#eee"))
		d.Text(side-6, down(v)+3, fmt.Sprintf("%.0f", v), append(small, report.Anchor("end"))...)
	}
	for i := range timeTicks + 1 {
		at := from + (to-from)*float64(i)/timeTicks
		d.Text(across(at), bottom+14, fmt.Sprintf("%.0f s", at), append(small, report.Anchor("middle"))...)
	}
	for _, l := range lines {
		var all, points []report.Point
		for i := range r.Samples {
			if s := &r.Samples[i]; s.Role == role && s.At >= from {
				all = append(all, report.Point{X: across(s.At), Y: down(l.of(s))})
			}
		}
		for i := range all {
			if i == 0 || i+1 == len(all) || all[i].Y != all[i-1].Y || all[i].Y != all[i+1].Y { // of a level stretch its ends
				points = append(points, all[i])
			}
		}
		d.Curve(points, report.Fill("none"), report.Stroke(l.colour), report.StrokeWidth(1.6))
	}
	for _, at := range []float64{0, r.Fell} {
		d.Line(across(at), float64(y+16), across(at), bottom, report.Stroke("#111"), report.Attr("stroke-dasharray", "3 3"))
	}
	r.marks(d, named, across, bottom+24)
}

// marks are the pods that are evicted from these nodes, red, and those that begin here, green.
func (r *Result) marks(d *report.Drawing, named map[string]bool, across func(float64) float64, y float64) {
	for _, e := range r.Events {
		if !named[e.Node] || e.Online || e.At < r.Filled+1 {
			continue
		}
		switch e.What {
		case leaves:
			d.Circle(across(e.At), y, 3.5, report.Fill("#dc2626"), report.Tip(fmt.Sprintf("%s evicted from %s at %.1f s", e.Pod, e.Node, e.At)))
		case runs:
			d.Circle(across(e.At), y+9, 3.5, report.Fill("#16a34a"), report.Tip(fmt.Sprintf("%s runs on %s at %.1f s", e.Pod, e.Node, e.At)))
		}
	}
}
