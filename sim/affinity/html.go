package affinity

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"hilbert.dev/hilbert/sim/page"
)

// WriteHTML writes the experiment as one page that needs nothing else.
func (res *Result) WriteHTML(w io.Writer) error {
	return page.Write(w, "GPUs and their network cards", body, template.FuncMap{"bars": (*Setting).bars}, res)
}

// Sizes of a picture in pixels.
const (
	pictureWidth = 920
	rowHeight    = 26
	nameWidth    = 90
)

// bars draws for each mode the share under one switch, and below it the share of the GPUs asked for that was given.
func (s *Setting) bars() template.HTML {
	var b strings.Builder
	height := rowHeight*len(s.Mean) + 20
	fmt.Fprintf(&b, `<figure><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, pictureWidth, height, template.HTMLEscapeString(s.Name))
	x := func(v float64) float64 { return nameWidth + v/100*(pictureWidth-nameWidth-20) }
	for v := 0; v <= 100; v += 20 {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="0" y2="%d"/><text class="under" x="%.1f" y="%d">%d</text>`,
			x(float64(v)), x(float64(v)), height-18, x(float64(v)), height-5, v)
	}
	for i := range s.Mean {
		o, y := &s.Mean[i], i*rowHeight+4
		fmt.Fprintf(&b, `<text class="left" x="%d" y="%d">%s</text>`, nameWidth-8, y+12, o.Mode)
		for k, v := range []float64{o.OneSwitchPercent, o.GPUServedPercent} {
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="8" fill="%s"/>`, nameWidth, y+9*k, x(v)-nameWidth, [...]string{"#1b6ca8", "#2a9d57"}[k])
		}
	}
	fmt.Fprintf(&b, `</svg><figcaption>percent: <span><i style="background:#1b6ca8"></i>GPU and card under one switch</span> `+
		`<span><i style="background:#2a9d57"></i>GPUs given of those asked for</span></figcaption></figure>`)
	return template.HTML(b.String()) //nolint:gosec // what stands in it is escaped above
}

const body = `<h1>GPUs and their network cards under one PCIe switch</h1>
<p>{{.Workload}}. The trace tells no devices: a GPU machine is modelled with 8 GPUs and 4 cards of 100 Gbit/s on 4 switches and 2 sockets.</p>
{{range .Settings}}<h2>{{.Name}}</h2>{{bars .}}
<table><tr><th></th><th>one switch %</th><th>broken</th><th>one zone %</th><th>cards alone, one zone %</th><th>GPUs given %</th><th>of asked %</th><th>cores of asked %</th><th>refused at first, with a GPU</th><th>refused at first</th><th>never placed</th><th>refused though fit</th><th>instances/s</th></tr>
{{range .Mean}}<tr><td>{{.Mode}}</td><td>{{f2 .OneSwitchPercent}}</td><td>{{.Broken}}</td><td>{{f2 .OneZonePercent}}</td><td>{{f2 .CardOneZonePercent}}</td><td>{{f2 .GPUAllocatedPercent}}</td><td>{{f2 .GPUServedPercent}}</td><td>{{f2 .CPUServedPercent}}</td><td>{{.WaitedGPU}}</td><td>{{.Waited}}</td><td>{{.Never}}</td><td>{{.RefusedThoughFit}}</td><td>{{f0 .PerSecond}}</td></tr>
{{end}}</table>{{end}}
<p>blind: devices drawn, each by itself. first: the lowest indices. required: a GPU and its card under one switch or not at all. preferred: where the machine has it. sought: on any machine first.</p>
`
