package recommend

import (
	"html/template"
	"io"
	"strconv"

	"hilbert.dev/hilbert/internal/report"
)

// WriteHTML writes the experiment as one page that needs nothing else.
func (r *Result) WriteHTML(w io.Writer) error {
	shown := struct {
		*Result

		Charts []template.HTML
	}{Result: r}
	for _, c := range []struct {
		title string
		of    func(*Score) float64
	}{
		{"CPU that is allocated and not used, percent", func(s *Score) float64 { return 100 * s.CPUSlack }},
		{"hours throttled, by thousand pod-days", func(s *Score) float64 { return s.ThrottledHours }},
		{"memory that is allocated and not used, percent", func(s *Score) float64 { return 100 * s.MemorySlack }},
		{"pods that would have run out of memory, by thousand pod-days", func(s *Score) float64 { return s.OOMs }},
	} {
		shown.Charts = append(shown.Charts, r.bars(c.title, c.of))
	}
	return report.Write(w, "recommended requests", body, nil, shown)
}

// Sizes of a chart in pixels.
const (
	chartWidth, chartLeft, barHeight, barStep = 920, 170, 16, 24
	barMost                                   = chartWidth - chartLeft - 70
)

// bars draws a figure of each policy but the one that recommends nothing.
func (r *Result) bars(title string, figure func(*Score) float64) template.HTML {
	most, list := 0.0, r.Scores[:len(r.Scores)-1]
	for i := range list {
		most = max(most, figure(&list[i]))
	}
	f := report.NewFigure(title, chartWidth, barStep*len(list)+8)
	for i := range list {
		colour := "#9a9a9a"
		switch list[i].Policy {
		case nameHilbert, nameNewPods:
			colour = "#1b6ca8"
		case nameVPA, nameVPAPlace:
			colour = "#c8852b"
		}
		y := 4 + i*barStep
		width := 0.0
		if most > 0 {
			width = figure(&list[i]) / most * barMost
		}
		f.Left(chartLeft-8, y+barHeight-3, list[i].Policy)
		f.Bar(colour, report.Point{X: chartLeft, Y: float64(y)}, width, barHeight)
		f.Under(chartLeft+width+24, y+barHeight-3, strconv.FormatFloat(figure(&list[i]), 'f', 1, 64))
	}
	return f.HTML("less is better")
}

const body = `<h1>Recommended requests, played against recorded use</h1>
<p>{{.Jobs}} jobs. Each has its first day to learn from; on every later day a policy says what the pod gets before it sees what was used.</p>
{{range .Charts}}{{.}}{{end}}
<table><tr><th>policy</th><th>pod-days</th><th>CPU slack %</th><th>memory slack %</th><th>OOMs/1000</th><th>throttled h/1000</th><th>CPU short %</th><th>CPU of asked %</th><th>memory of asked %</th><th>changes a day</th></tr>
{{range .Scores}}<tr><td>{{.Policy}}</td><td>{{.PodDays}}</td><td>{{percent .CPUSlack}}</td><td>{{percent .MemorySlack}}</td><td>{{f1 .OOMs}}</td><td>{{f0 .ThrottledHours}}</td><td>{{percent .Short}}</td><td>{{percent .CPUOfAsked}}</td><td>{{percent .MemoryOfAsked}}</td><td>{{f2 .Changes}}</td></tr>
{{end}}</table>`
