package forecast

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Params are what forecasts are made by.
type Params struct {
	// Step is how long one load holds. Lead is how far a forecast looks ahead: the most within it counts.
	Step, Lead time.Duration
	// Periods are what a load may repeat after, each a multiple of Step.
	Periods []time.Duration
	// Kept is how many periods the median is of, at most.
	Kept int
	// Recent is over how long the load is compared with the medians, and RatioMost bounds the ratio, up and down.
	Recent    time.Duration
	RatioMost float64
	// Quantile is of the errors, or of the rises, that High adds; Errors is how many of the last are kept.
	Quantile float64
	Errors   int
	// Rises: where no period is trusted, the load is forecast by what it rises by.
	Rises bool
	// HalfLife is how fast errors of the past are forgotten when forecasts are compared. Better is how much smaller than that of "same as now" the error
	// has to be: 0.9 is a tenth.
	HalfLife time.Duration
	Better   float64
	// Proof is for how long forecasts have to have been checked before one is trusted.
	Proof time.Duration
}

// DefaultParams are for loads of this step, looked ahead at by lead.
func DefaultParams(step, lead time.Duration) Params {
	return Params{
		Step: step, Lead: lead, Periods: []time.Duration{24 * time.Hour, 7 * 24 * time.Hour}, Kept: 4,
		Recent: 2 * time.Hour, RatioMost: 2, Quantile: 0.9, Errors: 576, HalfLife: 3 * 24 * time.Hour, Better: 0.95, Proof: 24 * time.Hour,
	}
}

// Bounds of a Series' memory: one number a step of the longest period, times Kept.
const (
	maxSteps  = 100_000
	maxErrors = 10_000
)

// Validate says what is wrong with the parameters.
func (p *Params) Validate() error {
	switch {
	case p.Step < time.Second || p.Lead < 0 || p.Recent < p.Step:
		return fmt.Errorf("forecast: step %s, lead %s, recent %s: want a step of at least a second, and at least a step of what is recent", p.Step, p.Lead, p.Recent)
	case len(p.Periods) == 0 || p.Kept < 2:
		return errors.New("forecast: want a period, and at least two of it kept")
	case !(p.RatioMost >= 1) || !(p.Quantile > 0 && p.Quantile < 1) || p.Errors < 1 || p.Errors > maxErrors:
		return fmt.Errorf("forecast: ratio %g, quantile %g of %d errors: want a ratio of at least 1, a quantile between 0 and 1, 1 to %d errors", p.RatioMost, p.Quantile, p.Errors, maxErrors)
	case p.HalfLife < p.Step || !(p.Better > 0 && p.Better <= 1) || p.Proof < 0:
		return fmt.Errorf("forecast: half-life %s, better %g, proof %s: want at least a step, more than 0 and at most 1, at least 0", p.HalfLife, p.Better, p.Proof)
	}
	for _, period := range p.Periods {
		if period < 2*p.Step || period <= p.Lead+p.Step || period%p.Step != 0 || int(period/p.Step)*p.Kept > maxSteps {
			return fmt.Errorf("forecast: a period of %s, %d of it kept: want more than the lead, a multiple of the step %s, and at most %d steps in all", period, p.Kept, p.Step, maxSteps)
		}
	}
	return nil
}

// Prediction is what a load will be at most within the lead.
type Prediction struct {
	Middle, High float64
	// Trusted says whether it may be used.
	Trusted bool
	// Period is what the load repeats after.
	Period time.Duration
	Reason string
}

// Series is a load as far as it is known, and the forecasts that wait to be checked.
type Series struct {
	params  *Params
	loads   []float64 // by step, the newest last; NaN is not known
	newest  int64     // the step of the last one, counted from the epoch
	periods []period
	same    track // of "same as now"
}

// period is the forecast by one period.
type period struct {
	steps   int
	track   track
	errors  []float64 // relative, the oldest first
	waiting []waiting
}

// track is how large errors were, the old ones fading.
type track struct{ sum, weight float64 }

func (t *track) see(err, fade float64) {
	t.sum = t.sum*fade + err
	t.weight = t.weight*fade + 1
}

func (t *track) mean() float64 { return t.sum / max(t.weight, 1e-9) }

// waiting is a forecast that waits for its time.
type waiting struct {
	until        int64 // a step
	middle, then float64
	most         float64 // of the loads since
}

// NewSeries returns an empty series. The parameters have to be valid and stay as they are.
func NewSeries(p *Params) *Series {
	s := &Series{params: p, newest: math.MinInt64}
	for _, length := range p.Periods {
		s.periods = append(s.periods, period{steps: int(length / p.Step)})
	}
	return s
}

// See tells the load of the step that an instant is in. Steps that are left out are not known. A load that is no number, negative, or older than the
// newest is none.
func (s *Series) See(load float64, at time.Time) {
	step := at.UnixNano() / int64(s.params.Step)
	if !(load >= 0) || math.IsInf(load, 0) || step <= s.newest {
		return
	}
	if s.newest == math.MinInt64 || step-s.newest > maxSteps {
		s.loads, s.newest = nil, step-1
		s.unjudge()
	} else if step > s.newest+1 {
		s.unjudge()
	}
	for s.newest++; s.newest < step; s.newest++ {
		s.loads = append(s.loads, math.NaN())
	}
	s.loads = append(s.loads, load)
	if most := s.window(); len(s.loads) > 2*most { // seldom, so that few are moved
		s.loads = append(s.loads[:0], s.loads[len(s.loads)-most:]...)
	}
	s.check(load)
}

// unjudge forgets the forecasts that wait for their time: of the lead of each a step is not known, so nobody can say any more how high the load was in it.
func (s *Series) unjudge() {
	for i := range s.periods {
		s.periods[i].waiting = nil
	}
}

// window is how many loads forecasts depend on: older ones are kept for a while, and not looked at.
func (s *Series) window() int {
	most := 0
	for i := range s.periods {
		most = max(most, s.periods[i].steps*s.params.Kept)
	}
	return most + int(s.params.Recent/s.params.Step)
}

// Loads are those that are kept, the newest last, and the beginning of its step. One that is not known is no number. They must not be changed.
func (s *Series) Loads() (newest time.Time, loads []float64) {
	if len(s.loads) == 0 {
		return time.Time{}, nil
	}
	return time.Unix(0, s.newest*int64(s.params.Step)), s.loads
}

// check compares forecasts whose time has come with what came, and makes the next ones.
func (s *Series) check(load float64) {
	fade := math.Exp2(-float64(s.params.Step) / float64(s.params.HalfLife))
	lead := s.lead()
	judged := false
	for i := range s.periods {
		p := &s.periods[i]
		kept := p.waiting[:0]
		for _, w := range p.waiting {
			w.most = max(w.most, load)
			if s.newest < w.until {
				kept = append(kept, w)
				continue
			}
			p.track.see(math.Abs(w.most-w.middle), fade)
			if p.errors = append(p.errors, single(w.most/max(w.middle, 1e-9)-1)); len(p.errors) > s.params.Errors {
				p.errors = append(p.errors[:0], p.errors[1:]...)
			}
			if !judged { // once for all periods
				s.same.see(math.Abs(w.most-w.then), fade)
				judged = true
			}
		}
		p.waiting = kept
		if middle, known := s.ahead(p); known {
			p.waiting = append(p.waiting, waiting{until: s.newest + int64(lead), middle: single(middle), then: load})
		}
	}
}

// single is a number as a checkpoint has it, so that a series goes on from one as if it had not stopped.
func single(v float64) float64 { return float64(float32(v)) }

// lead is in steps, at least one.
func (s *Series) lead() int {
	return max(int((s.params.Lead+s.params.Step-1)/s.params.Step), 1)
}

// ahead is the most within the lead by a period; false: there are not two whole ones, or of a step of the lead nothing is known from any of them.
func (s *Series) ahead(p *period) (float64, bool) {
	if len(s.loads) < 2*p.steps {
		return 0, false
	}
	ratio, known := s.ratio(p)
	if !known {
		return 0, false
	}
	most := 0.0
	for k := 1; k <= s.lead(); k++ {
		median, known := s.median(p, k)
		if !known {
			return 0, false
		}
		most = max(most, median*ratio)
	}
	return most, true
}

// median is of the loads at the phase that is k steps from now, whole periods ago.
func (s *Series) median(p *period, k int) (float64, bool) {
	var buffer [16]float64
	values := buffer[:0]
	for n := 1; n <= s.params.Kept; n++ {
		at := len(s.loads) - 1 + k - n*p.steps
		if at < 0 {
			break
		}
		if v := s.loads[at]; !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2, true
}

// ratio is how much more the load was of late than the medians were.
func (s *Series) ratio(p *period) (float64, bool) {
	was, usual := 0.0, 0.0
	for k := range int(s.params.Recent / s.params.Step) {
		at := len(s.loads) - 1 - k
		if at < 0 {
			break
		}
		if median, ok := s.median(p, -k); ok && !math.IsNaN(s.loads[at]) {
			was += s.loads[at]
			usual += median
		}
	}
	if usual <= 0 {
		return 0, false
	}
	return min(max(was/usual, 1/s.params.RatioMost), s.params.RatioMost), true
}

// proved says whether a period's forecasts have been checked for long enough.
func (s *Series) proved(p *period) bool {
	return len(p.errors) >= s.params.Errors || time.Duration(len(p.errors))*s.params.Step >= s.params.Proof
}

// best is the period with the least error, one that is proved before one that is not; -1: none was ever checked.
func (s *Series) best() int {
	best := -1
	for i := range s.periods {
		p := &s.periods[i]
		if len(p.errors) == 0 {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		b := &s.periods[best]
		if proved, was := s.proved(p), s.proved(b); proved && !was || proved == was && p.track.mean() < b.track.mean() {
			best = i
		}
	}
	return best
}

// Predict is the best forecast now.
func (s *Series) Predict() Prediction {
	p := s.periodic()
	if s.params.Rises && !p.Trusted {
		return s.rising(p)
	}
	return p
}

// periodic is the best forecast by periods.
func (s *Series) periodic() Prediction {
	best := s.best()
	if best < 0 {
		return Prediction{Reason: "less than two periods are known"}
	}
	p := &s.periods[best]
	middle, known := s.ahead(p)
	if !known {
		return Prediction{Reason: "the load of late is not known"}
	}
	errs := slices.Clone(p.errors)
	slices.Sort(errs)
	high := middle * (1 + max(errs[int(s.params.Quantile*float64(len(errs)-1))], 0))
	r := Prediction{Middle: middle, High: high, Period: time.Duration(p.steps) * s.params.Step}
	ours, same := p.track.mean(), s.same.mean()
	switch {
	case !s.proved(p):
		r.Reason = fmt.Sprintf("checked for %s: want %s", time.Duration(len(p.errors))*s.params.Step, s.params.Proof)
	case !(ours < s.params.Better*same):
		r.Reason = fmt.Sprintf("not used: its error is %.3g, that of \"same as now\" %.3g", ours, same)
	default:
		r.Trusted, r.Reason = true, fmt.Sprintf("repeats after %s: its error is %.3g, that of \"same as now\" %.3g", r.Period, ours, same)
	}
	return r
}
