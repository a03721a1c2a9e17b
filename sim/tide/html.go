package tide

import (
	"fmt"
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
		of    func(*Outcome) float64
	}{
		{"time in which capacity was missing, percent", func(o *Outcome) float64 { return 100 * o.Missed }},
		{"evictions of offline jobs", func(o *Outcome) float64 { return float64(o.Evictions) }},
		{"hours of replicas", func(o *Outcome) float64 { return o.ReplicaHours }},
	} {
		shown.Charts = append(shown.Charts, r.bars(c.title+", without a planned peak", false, c.of))
	}
	shown.Charts = append(shown.Charts, r.bars("time in which capacity was missing, percent, with planned peaks", true, func(o *Outcome) float64 { return 100 * o.Missed }))
	return report.Write(w, "tides", body, template.FuncMap{"percent": func(x float64) string { return fmt.Sprintf("%.2f", 100*x) }}, shown)
}

// Sizes of a chart in pixels.
const (
	chartWidth, chartLeft, barHeight, barStep = 920, 230, 9, 11
	barMost                                   = chartWidth - chartLeft - 90
)

// bars draws a figure of each way on each series: bars of one series as shares of its longest.
func (r *Result) bars(title string, planned bool, figure func(*Outcome) float64) template.HTML {
	colours := map[Way]string{HPAAlone: "#9a9a9a", Hilbert: "#1b6ca8", LendingAlone: "#c8852b", NodesByNeed: "#8ab6d6", Nodes: "#2f8f5b", Oracle: "#7a5ba8"}
	var list []*Outcome
	most := make(map[string]float64)
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Planned == planned {
			list = append(list, o)
			most[o.Series] = max(most[o.Series], figure(o))
		}
	}
	f := report.NewFigure(title, chartWidth, barStep*len(list)+8*(len(most)+1))
	y, last := 0, ""
	for _, o := range list {
		if o.Series != last {
			y += 8
			f.Left(chartLeft-8, y+barHeight, o.Series)
			last = o.Series
		}
		width := 0.0
		if most[o.Series] > 0 {
			width = figure(o) / most[o.Series] * barMost
		}
		f.Bar(colours[o.Way], report.Point{X: chartLeft, Y: float64(y)}, width, barHeight)
		f.Under(chartLeft+width+28, y+barHeight, strconv.FormatFloat(figure(o), 'f', 1, 64))
		y += barStep
	}
	for _, way := range Ways {
		f.Legend(colours[way], string(way))
	}
	return f.HTML("less is better; bars of a series are drawn to its longest")
}

const body = `<h1>Capacity for tides</h1>
<p>The last quarter of each series is held out. A replica takes {{.Setup.Start}} until it serves; {{.Setup.Replicas}} replicas serve the most load before what is judged at {{f2 .Setup.Target}} of what they can, and capacity is missing beyond {{f2 .Setup.Limit}}.</p>
{{range .Charts}}{{.}}{{end}}
<table><tr><th>series</th><th class="word">peak</th><th class="word">way</th><th>rises</th><th>minutes</th><th>longest</th><th>missed %</th><th>evictions</th><th>lost h</th><th>work h</th><th>replica h</th><th>nodes handed</th><th>replicas moved</th><th>trusted %</th><th class="word">forecast</th><th class="word">forecast of nodes</th></tr>
{{range .Outcomes}}<tr><td>{{.Series}}</td><td class="word">{{if .Planned}}planned{{end}}</td><td class="word">{{.Way}}</td><td>{{.Rises}}</td><td>{{f1 .Minutes}}</td><td>{{f1 .Longest}}</td><td>{{percent .Missed}}</td><td>{{.Evictions}}</td><td>{{f0 .LostHours}}</td><td>{{f0 .WorkHours}}</td><td>{{f0 .ReplicaHours}}</td><td>{{.NodesHanded}}</td><td>{{.ReplicasMoved}}</td><td>{{percent .Trusted}}</td><td class="word">{{.Why}}</td><td class="word">{{.NodesWhy}}</td></tr>
{{end}}</table>`
