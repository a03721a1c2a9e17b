package recommend

import (
	"time"

	"hilbert.dev/hilbert/control/recommend"
)

// policy says what a pod gets.
type policy interface {
	// allocate is called before each step. fresh: a new pod is made, as it is each day.
	allocate(now time.Time, fresh bool) recommend.Amounts
	// see tells what was used in the step that ended.
	see(s recommend.Sample, at time.Time)
	// ranOut tells that the pod had this much memory and ran out of it. allocate is called again for the new one.
	ranOut(had float64, at time.Time)
}

// asked is what the job asked for.
type asked struct{ request recommend.Amounts }

func (p *asked) allocate(time.Time, bool) recommend.Amounts { return p.request }
func (p *asked) see(recommend.Sample, time.Time)            {}
func (p *asked) ranOut(float64, time.Time)                  {}

// mostSoFar is the most ever used, plus a margin.
type mostSoFar struct {
	margin     float64
	most, held recommend.Amounts
}

func (p *mostSoFar) allocate(_ time.Time, fresh bool) recommend.Amounts {
	if fresh {
		p.held = recommend.Amounts{CPU: p.most.CPU * (1 + p.margin), Memory: p.most.Memory * (1 + p.margin)}
	}
	return p.held
}

func (p *mostSoFar) see(s recommend.Sample, _ time.Time) {
	if s.CPU > p.most.CPU { // false of NaN
		p.most.CPU = s.CPU
	}
	if s.Memory > p.most.Memory {
		p.most.Memory = s.Memory
	}
}

func (p *mostSoFar) ranOut(had float64, _ time.Time) {
	p.most.Memory = max(p.most.Memory, had*oomFactor, had+oomBytes)
}

// hilbert is Hilbert's profile. inPlace: the pod may change between steps.
type hilbert struct {
	profile *recommend.Profile
	inPlace bool
	params  *recommend.Params
	held    recommend.Amounts
	changed time.Time
	resizes int
}

func (p *hilbert) allocate(now time.Time, fresh bool) recommend.Amounts {
	r, known := p.profile.Recommend(nil, now)
	switch {
	case !known:
	case fresh || p.held == (recommend.Amounts{}):
		p.held, p.changed = r.Target, now
	case p.inPlace:
		next := p.params.Follow(p.held, &r, now.Sub(p.changed))
		if next != p.held {
			p.held, p.changed = next, now
			p.resizes++
		}
	}
	return p.held
}

func (p *hilbert) see(s recommend.Sample, at time.Time) { p.profile.See(s, at) }

func (p *hilbert) ranOut(had float64, at time.Time) { p.profile.RanOut(had, at) }

func (p *hilbert) changes() int { return p.resizes }
func (p *vpa) changes() int     { return p.updates }
