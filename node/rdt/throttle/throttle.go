package throttle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// Params tune the law.
type Params struct {
	// Carries is what the memory of one domain carries, in bytes per second. There is no default: it differs between machines by more than ten times.
	Carries float64
	// High and Low are shares of Carries: from High on the percentage falls, up to Low it rises.
	High, Low float64
	// Most is the percentage that reclaimed pods have when nothing is full, Least what they always have, Step how much it changes at a time.
	Most, Least, Step int
	// Hold is how long a domain has to be at most at Low before the percentage rises, and the least time between two rises.
	Hold time.Duration
	// Stale is how long what is not known is taken to be as before.
	Stale time.Duration
}

// Fixed parts of the parameters.
const (
	// DefaultStep is the step of Intel's hardware.
	DefaultStep = 10
	// DefaultStale is three readings.
	DefaultStale = 30 * time.Second
	// leastPart of Carries that reclaimed pods move: with less it is others that fill the memory, and to slow reclaimed pods down would help nobody.
	leastPart = 0.05
	// maxWait is how many times Hold the wait before a rise that may be too much becomes at most.
	maxWait = 16
)

// Validate names what cannot be worked with.
func (p *Params) Validate() error {
	switch {
	case !(p.Carries > 0) || math.IsInf(p.Carries, 0):
		return fmt.Errorf("throttle: a domain carries %g bytes per second: want more than 0", p.Carries)
	case !(p.Low > 0) || !(p.Low < p.High) || !(p.High <= 1):
		return fmt.Errorf("throttle: low %g, high %g: want 0 < low < high <= 1", p.Low, p.High)
	case p.Least < 1 || p.Least > p.Most || p.Most > 100:
		return fmt.Errorf("throttle: least %d, most %d percent: want 1 <= least <= most <= 100", p.Least, p.Most)
	case p.Step < 1:
		return fmt.Errorf("throttle: a step of %d percent: want at least 1", p.Step)
	case p.Hold <= 0 || p.Stale <= 0:
		return fmt.Errorf("throttle: hold %v, stale %v: want more than 0", p.Hold, p.Stale)
	}
	return nil
}

// Domain is what was moved in a domain between the last two readings, in bytes per second: by everybody, and by reclaimed pods.
type Domain struct {
	ID               int
	Total, Reclaimed advise.Sample
}

// Observation is one reading.
type Observation struct {
	// At is monotonic.
	At time.Duration
	// Domains are all that the hardware has, each once, whether something is known of it or not.
	Domains []Domain
	// Fixed: the hardware counts and cannot slow anybody down.
	Fixed bool
}

// Kind is how a domain stands.
type Kind string

// The kinds.
const (
	// Free: reclaimed pods have what is configured.
	Free Kind = "free"
	// Throttled: they have less.
	Throttled Kind = "throttled"
	// Full: they have the least, or cannot be slowed down, and the domain is full all the same.
	Full Kind = "full"
	// Unknown: the last reading is missing; everything is as before.
	Unknown Kind = "unknown"
	// Stale: so are those before; what is configured counts.
	Stale Kind = "stale"
)

// Kinds are all of them.
var Kinds = [...]Kind{Free, Throttled, Full, Unknown, Stale}

// Setting is what reclaimed pods have in a domain.
type Setting struct {
	Domain, Percent int
	Kind            Kind
}

// Decision is what follows from a reading.
type Decision struct {
	// Domains are by number. Where the observation was Fixed, their percentages say nothing.
	Domains []Setting
	// HoldGrowth: no more is to be lent, for a domain is full with what reclaimed pods move, and they cannot be slowed down further.
	HoldGrowth bool
}

// State is what is remembered from one reading to the next, of the domains of the last one. The zero value knows nothing.
type State struct {
	at      time.Duration
	most    int
	domains []domain // by number
}

// domain is one, and how it stands.
type domain struct {
	id, percent int
	full        bool          // it was at High, and not at Low since; of what reclaimed pods move a part that matters
	seen        time.Duration // when it was last known, or first heard of
	known       bool          // at the last reading
	quiet       bool          // it is at most at Low, since:
	calm        time.Duration
	changed     time.Duration // when the percentage was
	raised      bool          // upwards
	wait        time.Duration // before the next rise
}

// Step takes a reading. The parameters must be valid. Where they differ from those before, the percentage that was the greatest is now Most; each other one stays, if it may.
func Step(o *Observation, p *Params, s State) (Decision, State) {
	if o.At < s.at {
		s = State{} // another clock
	}
	next := State{at: o.At, most: p.Most}
	var out Decision
	for i := range o.Domains {
		seen := &o.Domains[i]
		d := domain{id: seen.ID, percent: p.Most, seen: o.At, changed: o.At, wait: p.Hold}
		if at, ok := slices.BinarySearchFunc(s.domains, seen.ID, func(d domain, id int) int { return cmp.Compare(d.id, id) }); ok {
			d = s.domains[at]
			d.adapt(p, s.most)
		}
		kind := d.step(seen, o, p)
		out.HoldGrowth = out.HoldGrowth || d.stuck(o, p)
		out.Domains = append(out.Domains, Setting{d.id, d.percent, kind})
		next.domains = append(next.domains, d)
	}
	slices.SortFunc(next.domains, func(x, y domain) int { return cmp.Compare(x.id, y.id) })
	slices.SortFunc(out.Domains, func(x, y Setting) int { return cmp.Compare(x.Domain, y.Domain) })
	return out, next
}

// adapt brings a domain within other parameters.
func (d *domain) adapt(p *Params, most int) {
	if d.percent == most {
		d.percent = p.Most
	}
	d.percent = min(max(d.percent, p.Least), p.Most)
	d.wait = min(max(d.wait, p.Hold), maxWait*p.Hold)
}

func (d *domain) step(seen *Domain, o *Observation, p *Params) Kind {
	total, ok := value(seen.Total)
	if d.known = ok; !ok {
		return d.missing(o.At, p)
	}
	d.seen = o.At
	switch {
	case total >= p.High*p.Carries:
		d.quiet = false
		d.high(seen, o, p)
	case total <= p.Low*p.Carries:
		d.low(seen, total, o, p)
	default:
		d.quiet = false
	}
	switch {
	case d.stuck(o, p):
		return Full
	case !o.Fixed && d.percent < p.Most:
		return Throttled
	}
	return Free
}

// fits reports whether a rise would leave the domain below High even if reclaimed pods moved more in proportion. Mostly they move less than that.
func (d *domain) fits(seen *Domain, total float64, p *Params) bool {
	reclaimed, ok := value(seen.Reclaimed)
	return ok && total+reclaimed*float64(p.Step)/float64(d.percent) < p.High*p.Carries
}

// stuck reports whether it is full, and reclaimed pods cannot be slowed down further.
func (d *domain) stuck(o *Observation, p *Params) bool {
	return d.full && (o.Fixed || d.percent == p.Least)
}

// value is a number that can be one of bytes.
func value(s advise.Sample) (float64, bool) {
	return s.Value, s.Known && s.Value >= 0 && !math.IsInf(s.Value, 0)
}

// missing leaves everything as it is, for a while.
func (d *domain) missing(at time.Duration, p *Params) Kind {
	d.quiet = false
	if at-d.seen <= p.Stale {
		return Unknown
	}
	*d = domain{id: d.id, percent: p.Most, seen: d.seen, changed: at, wait: p.Hold}
	return Stale
}

// high lowers the percentage, where reclaimed pods have a part in what is moved. What they move may be unknown: online pods come first.
func (d *domain) high(seen *Domain, o *Observation, p *Params) {
	if reclaimed, ok := value(seen.Reclaimed); ok && reclaimed < leastPart*p.Carries {
		d.full = false
		return
	}
	d.full = true
	if o.Fixed || d.percent == p.Least {
		return
	}
	if d.raised && o.At-d.changed <= d.wait {
		d.wait = min(2*d.wait, maxWait*p.Hold) // it was that rise
	}
	d.percent, d.changed, d.raised = max(d.percent-p.Step, p.Least), o.At, false
}

// low raises the percentage, if it has been quiet for long enough.
func (d *domain) low(seen *Domain, total float64, o *Observation, p *Params) {
	d.full = false
	if !d.quiet {
		d.quiet, d.calm = true, o.At
	}
	wait := d.wait
	if d.fits(seen, total, p) {
		wait = p.Hold
	}
	if o.At-d.calm < wait || o.At-d.changed < wait {
		return
	}
	if d.raised && o.At-d.changed >= d.wait {
		d.wait = p.Hold // the last rise was not too much
	}
	if d.percent < p.Most {
		d.percent, d.changed, d.raised = min(d.percent+p.Step, p.Most), o.At, true
	}
}
