package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// rising is the forecast by what a load rises by, whatever its phase: the load now plus a quantile of its rises within the lead in the last steps, and at most what it was in them. It is for loads
// that have no period, and yet rise again and again. Like that by periods it is used only while it beats "the same as now": it is learnt from what was before the last Proof, and judged by that
// time. What counts there is the loss at the quantile: what was missing as much more than what was too much as the quantile says, 9 to 1 with 0.9.
//
// For example, a load of 10 that rises to 60 for five minutes each hour has capacity for 60 with a quantile of 0.9, and is left alone with one of 0.5.
func (s *Series) rising(periods Prediction) Prediction {
	lead, proof := s.lead(), int(s.params.Proof/s.params.Step)
	last := len(s.loads) - lead // from it on it is not known yet what came
	learnt, capped := s.rises(last-proof-lead-s.params.Errors, last-proof-lead)
	judged := max(last-proof, 0)
	ours, same, n := 0.0, 0.0, 0
	margin := s.quantile(learnt)
	for i := judged; i < last; i++ {
		rise, known := s.rise(i)
		if !known {
			continue
		}
		n++
		ours += s.loss(rise, s.allowed(s.loads[i], margin, capped))
		same += s.loss(rise, 0)
	}
	switch {
	case len(learnt) < max(proof/2, 1) || n < max(proof/2, 1):
		return periods
	case !(ours < s.params.Better*same):
		periods.Reason += fmt.Sprintf("; nor by its rises: their loss is %.3g, that of \"same as now\" %.3g", ours/float64(n), same/float64(n))
		return periods
	}
	late, most := s.rises(last-s.params.Errors, last)
	now := s.loads[len(s.loads)-1]
	high := now + s.allowed(now, s.quantile(late), max(most, mostOf(s.loads[max(last, 0):])))
	return Prediction{Middle: now, High: high, Trusted: true, Reason: fmt.Sprintf("by its rises within %s: their loss is %.3g, that of \"same as now\" %.3g; no period: %s",
		time.Duration(lead)*s.params.Step, ours/float64(n), same/float64(n), periods.Reason)}
}

// rise is how much more than at a step the load was at most within the lead after it; false: that is not known. Of a lead that is known in part nobody knows how high the load was meanwhile: were
// such a rise counted, a load whose spikes are seldom seen would be one that does not rise.
func (s *Series) rise(at int) (float64, bool) {
	then, lead := s.loads[at], s.loads[at+1:at+1+s.lead()]
	if math.IsNaN(then) || slices.ContainsFunc(lead, math.IsNaN) {
		return 0, false
	}
	return max(slices.Max(lead)-then, 0), true
}

// rises are those of steps, and the most that the load was in these.
func (s *Series) rises(from, to int) (rises []float64, most float64) {
	for i := max(from, len(s.loads)-s.window(), 0); i < to; i++ {
		if rise, known := s.rise(i); known {
			rises = append(rises, rise)
			most = max(most, s.loads[i]+rise)
		}
	}
	return rises, most
}

// mostOf is the greatest load that is known; -1: none is.
func mostOf(loads []float64) float64 {
	most := -1.0
	for _, v := range loads {
		if v >= 0 {
			most = max(most, v)
		}
	}
	return most
}

func (s *Series) quantile(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[int(s.params.Quantile*float64(len(values)-1))]
}

// allowed is what is added to a load: the margin, but no more than brings it to the most that it was.
func (s *Series) allowed(load, margin, most float64) float64 { return max(min(margin, most-load), 0) }

// loss is that of having added so much where the load rose by another amount.
func (s *Series) loss(rise, added float64) float64 {
	if rise > added {
		return s.params.Quantile * (rise - added)
	}
	return (1 - s.params.Quantile) * (added - rise)
}
