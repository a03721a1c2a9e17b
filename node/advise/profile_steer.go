package advise

import (
	"math"
	"time"
)

// Reading is what is seen of a service at one tick.
type Reading struct {
	At time.Duration
	// Error is ln(indicator / target) of the worst indicator that is known. Whole: all are.
	Error Sample
	Whole bool
	// Has is how many CPUs the pool has now, Most how many it could have; 0: not known. Requests is what its pods ask for, in CPUs.
	Has, Most int
	Requests  Sample
}

// What an indicator says may be lateSizes periods late. A size that was left pastSizes periods ago can still be missed. When it is taken again, it
// has waitSizes periods to show that it is enough.
const (
	lateSizes = 4
	pastSizes = 8
	waitSizes = 3
)

// mostCPUs is more than any pool has.
const mostCPUs = 1 << 20

// Steering is what is remembered of a pool and a profile.
type Steering struct {
	Pool    string `json:"pool"`
	Profile string `json:"profile"`
	// Size is how many CPUs the pool should have, before it is rounded up; 0: not begun.
	Size float64 `json:"size"`
	// Began is when the period did; Sum and Count are of its errors, Partial: an indicator was missing in it.
	Began   time.Duration `json:"began"`
	Sum     float64       `json:"sum"`
	Count   int           `json:"count"`
	Partial bool          `json:"partial"`
	// Last is the error of the period before, as far as it left the deadband. Past are the sizes in the last periods.
	Last Sample             `json:"last"`
	Past [pastSizes]float64 `json:"past"`
	// Until then the size is at least Floor, because less has hurt. Hold is how long that lasts. It grows no further for Wait periods.
	Floor float64       `json:"floor"`
	Wait  int           `json:"wait"`
	Hold  time.Duration `json:"hold"`
	Until time.Duration `json:"until"`
}

// Steer is one tick of the law for one pool and profile: how many CPUs the pool should have. False: nothing is known to begin from. It is a PI
// controller in velocity form: what it remembers is the size itself, already bounded, so that nothing winds up behind a bound.
//
// It begins with what the pool has. The size follows the error outside the deadband once in a period, fast up and slowly down. While an
// indicator is missing it may grow by those that are known, and does not shrink. It goes ahead of what the pool really has only by a lead: where
// the pool is not given what it should have, or has more, the indicator says nothing of the size that is asked for. A size that hurt is not tried
// again for a while; without that, whole CPUs make pools of a few swing between one too many and one too few, whatever the gains.
func Steer(p *Profile, by *ProfileParams, r Reading, s *Steering) (cpus int, ok bool) {
	low, high := p.bounds(&r)
	if s.Size == 0 {
		start := float64(r.Has)
		if r.Has == 0 {
			if start, _ = amount(r.Requests, mostCPUs); start == 0 {
				return 0, false
			}
		}
		s.Size, s.Began = start, r.At
	}
	s.Size = max(low, min(s.Size, high))
	s.see(&r, by.ErrorMost)
	if since := r.At - s.Began; since < 0 {
		s.rebase(r.At)
	} else if since >= p.Period {
		s.decide(by, &r)
		s.Size = max(low, min(s.Size, high))
		s.Began, s.Sum, s.Count, s.Partial = r.At, 0, 0, false
	}
	return wholeCPUs(s.Size), true
}

// bounds of the size in CPUs: at least 1.
func (p *Profile) bounds(r *Reading) (low, high float64) {
	low, high = max(1, float64(p.LeastCPUs)), mostCPUs
	if r.Most > 0 {
		high = float64(r.Most)
	}
	if p.MostCPUs > 0 {
		high = min(high, float64(p.MostCPUs))
	}
	if requests, known := amount(r.Requests, mostCPUs); known && requests > 0 {
		if p.LeastShare > 0 {
			low = max(low, p.LeastShare*requests)
		}
		if p.MostShare > 0 {
			high = min(high, math.Floor(p.MostShare*requests))
		}
	}
	high = max(high, 1)
	return min(low, high), high
}

// see adds what is seen to the period.
func (s *Steering) see(r *Reading, bound float64) {
	s.Partial = s.Partial || !r.Whole
	if e := r.Error; e.Known && !math.IsNaN(e.Value) {
		s.Sum += max(-bound, min(e.Value, bound))
		s.Count++
	}
}

// rebase forgets the times: the node has booted again.
func (s *Steering) rebase(now time.Duration) {
	s.Began, s.Sum, s.Count, s.Partial = now, 0, 0, false
	s.Last = Sample{}
	s.Until = now + min(s.Hold, max(0, s.Until))
}

// decide ends a period: the size moves.
func (s *Steering) decide(by *ProfileParams, r *Reading) {
	if s.Count == 0 { // nothing is known: the size stays, and what comes next is no change
		s.Last = Sample{}
		s.remember()
		return
	}
	e := by.outside(s.Sum / float64(s.Count))
	change := s.change(by, e)
	s.Last = Known(e)
	switch {
	case e > 0:
		s.grow(by, r, change)
	case e < 0 && !s.Partial:
		s.shrink(by, r, change)
	}
	s.remember()
}

// remember notes the size of the period that begins.
func (s *Steering) remember() {
	s.Wait = max(0, s.Wait-1)
	copy(s.Past[1:], s.Past[:])
	s.Past[0] = s.Size
}

// outside is how far an error is outside the deadband.
func (by *ProfileParams) outside(e float64) float64 {
	high, low := math.Log1p(by.Above), math.Log1p(-min(by.Below, 0.95))
	switch {
	case e > high:
		return e - high
	case e < low:
		return e - low
	}
	return 0
}

// change is what the controller wants of the logarithm of the size. It never goes against the error: that errors fall is no reason to
// shrink a pool that is still too small.
func (s *Steering) change(by *ProfileParams, e float64) float64 {
	gain := by.IntegralUp
	if e < 0 {
		gain = by.IntegralDown
	}
	change := gain * e
	if s.Last.Known {
		change += by.Proportional * (e - s.Last.Value)
	}
	if change*e <= 0 {
		return 0
	}
	return max(math.Log1p(-min(by.StepDown, 0.9)), min(change, math.Log1p(by.StepUp)))
}

// grow makes the pool larger: at most by StepUp or one CPU, and no farther ahead of what it has than the lead. It counts from whole CPUs, since
// only those help. If the pool was shrunk lately, that is to blame.
func (s *Steering) grow(by *ProfileParams, r *Reading, change float64) {
	base := float64(wholeCPUs(s.Size))
	wanted := base * math.Exp(change)
	if enough := s.enough(); enough > base {
		s.blame(by, r.At, enough)
		wanted = enough
	}
	if s.Wait > 0 {
		wanted = min(wanted, s.Floor)
	}
	wanted = min(wanted, base+max(1, base*by.StepUp))
	for _, past := range s.Past[:lateSizes] {
		if past > 0 {
			wanted = min(wanted, max(past*by.GrowMost, past+2))
		}
	}
	if r.Has > 0 {
		wanted = min(wanted, float64(r.Has)*(1+by.LeadUp)+by.LeadCPUs)
	}
	s.Size = max(s.Size, wanted)
}

// shrink makes the pool smaller: not below what hurt, nor farther below what it has than the lead.
func (s *Steering) shrink(by *ProfileParams, r *Reading, change float64) {
	wanted := s.Size * math.Exp(change)
	if r.At < s.Until {
		wanted = max(wanted, s.Floor)
	}
	if r.Has > 0 {
		wanted = max(wanted, float64(r.Has)*(1-by.LeadDown)-by.LeadCPUs)
	}
	s.Size = min(s.Size, wanted)
}

// enough is the size in whole CPUs that it had before it was shrunk lately, or what it has.
func (s *Steering) enough() (size float64) {
	now := wholeCPUs(s.Size)
	for i, past := range s.Past {
		if i >= lateSizes && size > float64(now) {
			break
		}
		size = max(size, float64(wholeCPUs(past)))
	}
	return size
}

// blame holds the size that was enough.
func (s *Steering) blame(by *ProfileParams, now time.Duration, enough float64) {
	switch {
	case s.Hold == 0 || now-s.Until >= s.Hold: // the first time, or long after the last
		s.Hold = by.HoldMin
	case now >= s.Until: // as soon as it was tried again
		s.Hold = min(2*s.Hold, by.HoldMax)
	}
	s.Until = now + s.Hold
	s.Floor, s.Wait = enough, waitSizes
}

// wholeCPUs is a size in whole CPUs.
func wholeCPUs(size float64) int {
	const rounding = 1e-9
	return int(max(1, math.Ceil(min(size, mostCPUs)-rounding)))
}
