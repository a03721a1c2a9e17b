package affinity

import (
	"html/template"
	"io"
	"strconv"

	"hilbert.dev/hilbert/internal/report"
)

// WriteHTML writes the experiment as one page that needs nothing else.
func (res *Result) WriteHTML(w io.Writer) error {
	return report.Write(w, "GPUs and their network cards", body, template.FuncMap{"bars": (*Setting).bars}, res)
}

// Sizes of a picture in pixels.
const (
	pictureWidth = 920
	rowHeight    = 26
	nameWidth    = 90
)

// bars draws for each mode the share under one switch, and below it the share of the GPUs asked for that was given.
func (s *Setting) bars() template.HTML {
	height := rowHeight*len(s.Mean) + 20
	f := report.NewFigure(s.Name+", percent", pictureWidth, height)
	x := func(v float64) float64 { return nameWidth + v/100*(pictureWidth-nameWidth-20) }
	for v := 0; v <= 100; v += 20 {
		f.Column(x(float64(v)), height-18, height-5, strconv.Itoa(v))
	}
	colours := [...]string{"#1b6ca8", "#2a9d57"}
	for i := range s.Mean {
		o, y := &s.Mean[i], i*rowHeight+4
		f.Left(nameWidth-8, y+12, o.Mode.String())
		for k, v := range []float64{o.OneSwitchPercent, o.GPUServedPercent} {
			f.Bar(colours[k], report.Point{X: nameWidth, Y: float64(y + 9*k)}, x(v)-nameWidth, 8)
		}
	}
	f.Legend(colours[0], "GPU and card under one switch")
	f.Legend(colours[1], "GPUs given of those asked for")
	return f.HTML("")
}

const body = `<h1>GPUs and their network cards under one PCIe switch</h1>
<p>{{.Workload}}. The trace tells no devices: a GPU machine is modelled with 8 GPUs and 4 cards of 100 Gbit/s on 4 switches and 2 sockets.</p>
{{range .Settings}}<h2>{{.Name}}</h2>{{bars .}}
<table><tr><th></th><th>one switch %</th><th>broken</th><th>one NUMA node %</th><th>cards alone, one NUMA node %</th><th>GPUs given %</th><th>of asked %</th><th>cores of asked %</th><th>refused at first, with a GPU</th><th>refused at first</th><th>never placed</th><th>refused though fit</th><th>instances/s</th></tr>
{{range .Mean}}<tr><td>{{.Mode}}</td><td>{{f2 .OneSwitchPercent}}</td><td>{{.Broken}}</td><td>{{f2 .OneNUMANodePercent}}</td><td>{{f2 .CardOneNUMANodePercent}}</td><td>{{f2 .GPUAllocatedPercent}}</td><td>{{f2 .GPUServedPercent}}</td><td>{{f2 .CPUServedPercent}}</td><td>{{.WaitedGPU}}</td><td>{{.Waited}}</td><td>{{.Never}}</td><td>{{.RefusedThoughFit}}</td><td>{{f0 .PerSecond}}</td></tr>
{{end}}</table>{{end}}
<p>blind: devices drawn, each by itself. first: the lowest indices. required: a GPU and its card under one switch or not at all. preferred: where the machine has it. sought: on any machine first.</p>
`
