package interference

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

		Chart template.HTML
	}{r, r.bars()}
	return report.Write(w, "interference", body, nil, shown)
}

// Sizes of the chart in pixels.
const (
	chartWidth, chartLeft, barHeight, barStep = 920, 270, 14, 20
	barMost                                   = chartWidth - chartLeft - 70
)

// bars draws the naming accuracy.
func (r *Result) bars() template.HTML {
	f := report.NewFigure("hogs that harmed and were named first, percent", chartWidth, barStep*len(r.Scores)+8)
	for i := range r.Scores {
		s, y := &r.Scores[i], 4+i*barStep
		colour := "#1b6ca8"
		if s.Sees == countersAlone {
			colour = "#c8852b"
		}
		f.Left(chartLeft-8, y+barHeight-3, s.Sees+", hog: "+s.Hog)
		f.Bar(colour, report.Point{X: chartLeft, Y: float64(y)}, s.Named*barMost, barHeight)
		f.Under(chartLeft+s.Named*barMost+26, y+barHeight-3, strconv.FormatFloat(100*s.Named, 'f', 1, 64))
	}
	return f.HTML("more is better")
}

const body = `<h1>Harmful neighbours, told by residuals and named by correlation</h1>
<p>{{.Setup.Seeds}} mixes on modelled machines, half of them with a hog.</p>
{{.Chart}}
<table><tr><th>sees</th><th class="word">hog</th><th>mixes</th><th>harmed</th><th>named right</th><th>wrong</th><th>accuracy %</th><th>largest is right %</th><th>false alarms %</th><th>named s</th><th>relief s</th><th>longest s</th></tr>
{{range .Scores}}<tr><td>{{.Sees}}</td><td class="word">{{.Hog}}</td><td>{{.Mixes}}</td><td>{{.Harmed}}</td><td>{{.Right}}</td><td>{{.Wrong}}</td><td>{{percent .Named}}</td><td>{{percent .Largest}}</td><td>{{percent .FalseAlarms}}</td><td>{{f0 .NamedAfter}}</td><td>{{f0 .ReliefAfter}}</td><td>{{f0 .ReliefMost}}</td></tr>
{{end}}</table>
<h2>How far the steps against the hog go</h2>
<table><tr><th>sees</th><th class="word">hog</th><th class="word">its limit</th><th>mixes</th><th>harmed</th><th>limited</th><th>evicted</th><th>needlessly</th><th>others evicted</th><th>evicted s</th><th>longest s</th></tr>
{{range .Ladder}}<tr><td>{{.Sees}}</td><td class="word">{{.Hog}}</td><td class="word">{{.Limit}}</td><td>{{.Mixes}}</td><td>{{.Harmed}}</td><td>{{.Limited}}</td><td>{{.Evicted}}</td><td>{{.Needless}}</td><td>{{.Others}}</td><td>{{f0 .EvictedAfter}}</td><td>{{f0 .EvictedMost}}</td></tr>
{{end}}</table>
<h2>Whether an agent that starts again names the hog</h2>
<table><tr><th class="word">the agent ends</th><th>the next one knows what it knew</th><th>harmed</th><th>named right</th><th>wrong</th><th>named s</th></tr>
{{range .Restarts}}<tr><td class="word">{{.When}}</td><td>{{.Kept}}</td><td>{{.Harmed}}</td><td>{{.Right}}</td><td>{{.Wrong}}</td><td>{{f0 .NamedAfter}}</td></tr>
{{end}}</table>`
