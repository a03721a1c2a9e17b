package elastic

import (
	"fmt"
	"strings"
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
		{roleTide, "nodes whose online load rises"}, {roleCalm, "nodes whose load stays"}, {roleBlind, "load rises, the kernel shows no counters"},
		{roleKill, "the agent is killed when the load rises elsewhere"},
	}
	var b strings.Builder
	height := top + len(roles)*(panelHeight+panelGap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n",
		pictureWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", pictureWidth, height)
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="15" font-weight="bold">Online load of %d of %d nodes rises to %.3g times at 0</text>`+"\n",
		side, r.Options.Tide+r.Options.Blind, r.Options.Nodes, r.Options.High/r.Options.Low)
	x := side
	for _, l := range lines {
		fmt.Fprintf(&b, `<rect x="%d" y="38" width="18" height="4" fill="%s"/><text x="%d" y="46">%s</text>`+"\n", x, l.colour, x+24, l.title)
		x += 170
	}
	for i, p := range roles {
		r.panel(&b, p.role, p.title, top+i*(panelHeight+panelGap))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// panel draws the nodes of a role.
func (r *Result) panel(b *strings.Builder, role, title string, y int) {
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
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s (%d), CPUs</text>`+"\n", side, y+8, title, n)
	for i := range valueTicks + 1 {
		v := most * float64(i) / valueTicks
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#eee"/><text x="%d" y="%.1f" fill="#666" font-size="10" text-anchor="end">%.0f</text>`+"\n",
			side, pictureWidth-side, down(v), down(v), side-6, down(v)+3, v)
	}
	for i := range timeTicks + 1 {
		at := from + (to-from)*float64(i)/timeTicks
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#666" font-size="10" text-anchor="middle">%.0f s</text>`+"\n", across(at), y+panelHeight+14, at)
	}
	for _, l := range lines {
		var xs, ys []string
		for i := range r.Samples {
			if s := &r.Samples[i]; s.Role == role && s.At >= from {
				xs, ys = append(xs, fmt.Sprintf("%.1f", across(s.At))), append(ys, fmt.Sprintf("%.1f", down(l.of(s))))
			}
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.6" points="`, l.colour)
		for i := range xs {
			if i == 0 || i+1 == len(xs) || ys[i] != ys[i-1] || ys[i] != ys[i+1] { // of a level stretch its ends
				fmt.Fprintf(b, "%s,%s ", xs[i], ys[i])
			}
		}
		b.WriteString(`"/>` + "\n")
	}
	for _, at := range []float64{0, r.Fell} {
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#111" stroke-dasharray="3 3"/>`+"\n", across(at), across(at), y+16, y+panelHeight)
	}
	r.marks(b, named, across, y+panelHeight+24)
}

// marks are the pods that are evicted from these nodes, red, and those that begin here, green.
func (r *Result) marks(b *strings.Builder, named map[string]bool, across func(float64) float64, y int) {
	for _, e := range r.Events {
		if !named[e.Node] || e.Online || e.At < r.Filled+1 {
			continue
		}
		switch e.What {
		case leaves:
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%d" r="3.5" fill="#dc2626"><title>%s evicted from %s at %.1f s</title></circle>`+"\n", across(e.At), y, e.Pod, e.Node, e.At)
		case runs:
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%d" r="3.5" fill="#16a34a"><title>%s runs on %s at %.1f s</title></circle>`+"\n", across(e.At), y+9, e.Pod, e.Node, e.At)
		}
	}
}
