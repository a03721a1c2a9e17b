package tide

import (
	"time"

	"hilbert.dev/hilbert/control/forecast"
)

// coming is the most load from some time into a step until a time after it, with planned peaks: what a forecast would say that is always right. Between its points a load is on a straight
// line, so that the most is at a point or at an end.
func (g *game) coming(i int, k, ahead time.Duration, now time.Time) float64 {
	planned, _ := forecast.Planned(g.peaks, now, ahead)
	most := max(g.recorded(i, k), planned)
	end := k + ahead
	for at := g.s.Step; at <= end; at += g.s.Step {
		most = max(most, g.recorded(i+int(at/g.s.Step), 0))
	}
	return max(most, g.recorded(i+int(end/g.s.Step), end%g.s.Step))
}

// perfect is how many nodes online will need at most within the lead of nodes.
func (p *pool) perfect(now time.Time) forecast.Prediction {
	since := now.Sub(p.g.s.Start)
	load := p.g.coming(int(since/p.g.s.Step), since%p.g.s.Step, poolLead+p.g.o.lead(), now)
	need := float64(p.need(p.g.replicas(load)))
	return forecast.Prediction{Middle: need, High: need, Trusted: true, Reason: "it is known"}
}
