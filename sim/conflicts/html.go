package conflicts

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"time"

	"hilbert.dev/hilbert/internal/report"
)

// WriteHTML writes the experiment as one page that needs nothing else.
func (r *Result) WriteHTML(w io.Writer) error {
	shown := struct {
		*Result

		Charts []template.HTML
	}{Result: r}
	for _, nodes := range r.Setup.Nodes {
		for _, score := range r.Setup.Scores {
			for _, lag := range r.Setup.Lags {
				at := fmt.Sprintf("%d nodes, %s, lag %s", nodes, score, lag)
				shown.Charts = append(shown.Charts,
					r.chart(at+": Plans rejected, percent, by schedulers", nodes, score, lag, func(o *Outcome) float64 { return 100 * o.Rejected }),
					r.chart(at+": score lost by a placement, points", nodes, score, lag, func(o *Outcome) float64 { return o.ScoreLost }))
			}
		}
	}
	return report.Write(w, "conflicts of schedulers", body, nil, shown)
}

// colours of the strategies differ in lightness too.
var colours = map[Strategy]string{
	Plain: "#9a9a9a", Seeded: "#c8852b", RunnersUp: "#1b6ca8", KBest: "#c8452b", Partitions: "#2b8c5a", Rotating: "#6b4ca8",
}

// Sizes of a chart in pixels.
const (
	chartWidth, chartHeight            = 920, 220
	marginLeft, marginTop, marginUnder = 46, 12, 24
	gridLines                          = 6
)

// chart draws a figure of each strategy by the number of schedulers.
func (r *Result) chart(title string, nodes int, score Score, lag time.Duration, figure func(*Outcome) float64) template.HTML {
	counts := r.Setup.Schedulers
	most := 0.0
	for _, s := range r.Setup.Strategies {
		for _, o := range r.of(nodes, score, lag, s) {
			most = max(most, figure(&o))
		}
	}
	step := report.Step(most, gridLines)
	top := max(step*math.Ceil(most/step), step)
	x := func(schedulers int) float64 {
		for i, n := range counts {
			if n == schedulers {
				return marginLeft + 20 + float64(i)/max(float64(len(counts)-1), 1)*(chartWidth-marginLeft-48)
			}
		}
		return marginLeft
	}
	y := func(v float64) float64 { return chartHeight - marginUnder - v/top*(chartHeight-marginUnder-marginTop) }
	f := report.NewFigure(title, chartWidth, chartHeight)
	for v := 0.0; v <= top+step/2; v += step {
		f.Row(marginLeft, chartWidth-8, y(v), strconv.FormatFloat(v, 'g', 4, 64))
	}
	for _, n := range counts {
		f.Under(x(n), chartHeight-6, strconv.Itoa(n))
	}
	for _, s := range r.Setup.Strategies {
		list := r.of(nodes, score, lag, s)
		f.Curve(colours[s], len(list), func(i int) (float64, float64) { return x(list[i].Schedulers), y(figure(&list[i])) })
		f.Legend(colours[s], string(s))
	}
	return f.HTML("")
}

const body = `<h1>Conflicts of schedulers that share a ledger</h1>
<p>A model of time over the production ledger: {{.Setup.Pods}} pods wait, and fill the cluster to {{f2 .Setup.Fill}} of its CPUs. A decision takes {{.Setup.Decision}}, a commit {{.Setup.Commit}}.
Rejected Plans are work done in vain. The score lost is against the best node at the time of the commit.</p>
{{range .Charts}}{{.}}{{end}}
<table><tr><th>nodes</th><th class="word">score</th><th>lag</th><th>schedulers</th><th class="word">strategy</th><th>rejected %</th><th>best %</th><th>score lost</th><th>runners-up %</th><th>placed/s</th></tr>
{{range .Outcomes}}<tr><td>{{.Nodes}}</td><td class="word">{{.Score}}</td><td>{{.Lag}}</td><td>{{.Schedulers}}</td><td class="word">{{.Strategy}}</td><td>{{percent .Rejected}}</td><td>{{percent .Best}}</td><td>{{f2 .ScoreLost}}</td><td>{{percent .RunnersUp}}</td><td>{{f0 .PerSecond}}</td></tr>
{{end}}</table>`
