package overcommit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Params are what the percent is decided by.
type Params struct {
	// Max is the greatest percent.
	Max int
	// Target is the share of the CPUs that the services' peak may reach.
	Target float64
	// Learn is how many hours of use must have been seen.
	Learn int
	// Rise is by how many points the percent rises in an hour at most, Fall by how many it falls in a minute of lasting harm.
	Rise, Fall float64
	// Calm is how many minutes there must have been without harm before the percent rises again.
	Calm int
	// Delay, in threads that wait for each CPU, and Pressure, a share of time, are harm beyond these.
	Delay, Pressure float64
}

// DefaultParams are cautious.
func DefaultParams() Params {
	return Params{Max: 150, Target: 0.6, Learn: 24, Rise: 10, Fall: 10, Calm: 10, Delay: 0.2, Pressure: 0.25}
}

// Validate says what is wrong with the parameters.
func (p *Params) Validate() error {
	switch {
	case p.Max < whole || p.Max > MaxPercent:
		return fmt.Errorf("overcommit: at most %d percent: want %d to %d", p.Max, whole, MaxPercent)
	case !(p.Target > 0 && p.Target <= 1) || p.Learn < 0 || p.Learn > hoursOfWeek:
		return fmt.Errorf("overcommit: target %g, learn %d hours: want a target above 0 and at most 1, and 0 to %d hours", p.Target, p.Learn, hoursOfWeek)
	case p.Calm < 1:
		return fmt.Errorf("overcommit: %d calm minutes: want at least 1", p.Calm)
	case !(p.Rise > 0 && p.Fall > 0 && p.Delay > 0 && p.Pressure > 0):
		return errors.New("overcommit: rise, fall, delay and pressure have to be more than 0")
	}
	return nil
}

const (
	whole = 100
	// MaxPercent is the greatest percent that anybody may allow.
	MaxPercent  = 1000
	hoursOfWeek = 7 * 24
	minutes     = 60
	// knownShare is the share of a minute's readings that have to be known, and of an hour's minutes for the hour to be.
	knownShare = 0.5
	// leastAsked is the share of the CPUs that services have to ask for: the use of less says nothing of more.
	leastAsked = 0.05
	// leastPeak bounds what idle services allow.
	leastPeak = 0.01
	// peakOf is which of an hour's minutes, from the greatest, is its peak: two of them may be a start.
	peakOf = 3
	// long is for how many minutes use may be unknown until the percent has to rise anew.
	long = 120
	// lasting is after how many minutes of harm the percent falls, unseen for how many minutes use may be unknown.
	lasting, unseen = 3, 3
	// notch is by how much the percent has to rise to be told.
	notch = 5
	// resumes is how old a State may be whose percent is gone on with.
	resumes = 2 * time.Hour
)

// Reading is what was seen of a node at one moment. NaN is not known.
type Reading struct {
	// Wall is the node's time; the hour of the week is told by it.
	Wall time.Time
	// CPUs are those that shared pods have between them: none that is reserved, or a pod's own.
	CPUs float64
	// Asked is what services asked for, before anything was lowered, and Use what they use, in CPUs.
	Asked, Use float64
	// Delay is in threads that wait for each CPU, Pressure the share of time in which some thread of a service waits, by what services asked for.
	Delay, Pressure float64
	// Harmed says which service is harmed by a neighbour, and how; empty: none is known to be.
	Harmed string
}

// Reason is why the percent is what it is.
type Reason string

// The reasons.
const (
	Learning Reason = "Learning" // use was not seen for long enough
	Unknown  Reason = "Unknown"  // use, or whether services are harmed, is not known
	Harm     Reason = "Harm"     // services wait, or are harmed
	Peak     Reason = "Peak"     // the peak of use allows no more
	Rising   Reason = "Rising"   // the peak of use allows more, later
	Most     Reason = "Most"     // Max
)

// Decision is what may be promised.
type Decision struct {
	// Percent of the CPUs, as services ask for them.
	Percent int
	Reason  Reason
	Message string
	// Peak is the services' greatest use of what they asked for, in percent; 0: it is not known. Hours are those of the week that it is from.
	Peak, Hours int
}

// State is what is known of the past, and where the ladder stands. It can be saved as JSON.
type State struct {
	// Peaks are the peaks of the hours of the week; 0: it is not known.
	Peaks [hoursOfWeek]float64 `json:"peaks"`
	// Percent is the exact one, Told the one that was said last, At when that was decided.
	Percent float64   `json:"percent"`
	Told    int       `json:"told"`
	At      time.Time `json:"at"`

	recent  [minutes]float64 // of the last hour; 0: it is not known
	minute  int64            // since the epoch, the one that is being added up; 0: none yet
	sum     sum
	harmed  string // what harm there is, as of the last minute
	waits   int    // minutes of harm in a row, short calms included
	calm    int    // minutes without
	missing int    // minutes in a row whose use, or harm, is not known
}

// sum adds the readings of a minute up.
type sum struct {
	n, used, delays, pressures  int
	asked, use, delay, pressure float64
	cpus                        float64
	harmed                      string
}

// Restore makes a State that was saved fit to go on with. What is too old keeps its peaks alone.
func (s *State) Restore(now time.Time) {
	for i, x := range s.Peaks {
		if !(x >= 0) || math.IsInf(x, 0) {
			s.Peaks[i] = 0
		}
	}
	if age := now.Sub(s.At); age < 0 || age > resumes || !(s.Percent >= whole && s.Percent <= MaxPercent) || s.Told < whole || s.Told > MaxPercent {
		s.Percent, s.Told = whole, whole
	}
}

// Step takes a reading in, and says what may be promised.
func Step(r *Reading, p *Params, s *State) Decision {
	s.Percent, s.Told = max(s.Percent, whole), max(s.Told, whole)
	minute, told := r.Wall.Unix()/minutes, s.Told
	switch {
	case s.minute == 0 || minute < s.minute: // the first one, or the clock went back
		s.minute, s.sum = minute, sum{}
	case minute > s.minute:
		s.missing += int(min(minute-s.minute-1, long))
		s.close(p, minute)
	}
	s.sum.add(r)
	if r.Harmed != "" { // growth stops at once
		s.harmed, s.calm = r.Harmed, 0
		s.Percent = min(s.Percent, float64(told))
		s.stop(r.Asked, r.CPUs)
	}
	s.Percent = min(s.Percent, float64(p.Max))
	if s.missing >= long || s.hours() < p.Learn {
		s.Percent = whole
	}
	s.tell(r.Wall, p.Max)
	return s.decision(p)
}

func (m *sum) add(r *Reading) {
	m.n++
	m.cpus = r.CPUs
	if known(r.Use) && known(r.Asked) {
		m.used++
		m.use, m.asked = m.use+r.Use, m.asked+r.Asked
	}
	if known(r.Delay) {
		m.delays++
		m.delay += r.Delay
	}
	if known(r.Pressure) {
		m.pressures++
		m.pressure += r.Pressure
	}
	if r.Harmed != "" {
		m.harmed = r.Harmed
	}
}

func known(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }

// mean is that of the values that were known, NaN if these were too few.
func (m *sum) mean(total float64, n int) float64 {
	if n == 0 || float64(n) < knownShare*float64(m.n) {
		return math.NaN()
	}
	return total / float64(n)
}

// close ends the minute, and begins another.
func (s *State) close(p *Params, next int64) {
	m := &s.sum
	use, asked := m.mean(m.use, m.used), m.mean(m.asked, m.used)
	delay, pressure := m.mean(m.delay, m.delays), m.mean(m.pressure, m.pressures)
	s.recent[s.minute%minutes] = 0
	if asked >= leastAsked*m.cpus && asked > 0 && known(use) {
		s.recent[s.minute%minutes] = max(use/asked, leastPeak)
	}
	if s.minute/minutes != next/minutes {
		s.closeHour(s.minute / minutes)
	}
	for t := s.minute + 1; t <= min(next, s.minute+minutes); t++ { // those that nobody saw are not known
		s.recent[t%minutes] = 0
	}
	s.harm(p, m, delay, pressure)
	switch {
	case math.IsNaN(use) || math.IsNaN(delay) && math.IsNaN(pressure):
		s.missing++
	default:
		s.missing = 0
	}
	s.missing = min(s.missing, long)
	switch {
	case s.harmed != "":
		s.stop(asked, m.cpus)
		if s.waits > lasting {
			s.Percent = max(s.Percent-p.Fall, whole)
		}
	case s.calm >= p.Calm && s.missing == 0:
		s.Percent += p.Rise / minutes
	}
	s.Percent = min(s.Percent, max(s.allowed(p), whole))
	s.minute, s.sum = next, sum{}
}

// closeHour keeps the peak of an hour that was seen well enough. One that was not keeps what is known of it from before.
func (s *State) closeHour(hour int64) {
	seen := 0
	for _, x := range s.recent {
		if x > 0 {
			seen++
		}
	}
	if float64(seen) >= knownShare*minutes {
		s.Peaks[hour%hoursOfWeek] = s.recentPeak()
	}
}

// harm counts the minutes in which services wait, and those in which they do not.
func (s *State) harm(p *Params, m *sum, delay, pressure float64) {
	s.harmed = m.harmed
	if s.harmed == "" && delay > p.Delay {
		s.harmed = fmt.Sprintf("%.2f threads wait for each CPU, more than %.2f", delay, p.Delay)
	}
	if s.harmed == "" && pressure > p.Pressure {
		s.harmed = fmt.Sprintf("services wait for a CPU in %.0f%% of the time, more than %.0f%%", whole*pressure, whole*p.Pressure)
	}
	if s.harmed != "" {
		s.waits, s.calm = s.waits+1, 0
		return
	}
	if s.calm++; s.calm >= p.Calm {
		s.waits = 0
	}
}

// stop lets no more be promised than is.
func (s *State) stop(asked, cpus float64) {
	if known(asked) && cpus > 0 {
		s.Percent = min(s.Percent, max(whole*asked/cpus, whole))
	}
}

// recentPeak is the peak of the last hour: two of its minutes may be beyond it.
func (s *State) recentPeak() float64 {
	list := s.recent
	slices.Sort(list[:])
	return list[minutes-peakOf]
}

// peak is the greatest of the last hour and of the hours of the week.
func (s *State) peak() float64 { return max(s.recentPeak(), slices.Max(s.Peaks[:])) }

// hours is how many hours of the week are known.
func (s *State) hours() (n int) {
	for _, x := range s.Peaks {
		if x > 0 {
			n++
		}
	}
	return n
}

// allowed is the percent that the peak allows.
func (s *State) allowed(p *Params) float64 {
	peak := s.peak()
	if peak == 0 {
		return whole
	}
	return min(whole*p.Target/peak, float64(p.Max))
}

// tell takes what falls over at once, and what rises by notches: each is a write of the report.
func (s *State) tell(now time.Time, most int) {
	exact := int(s.Percent)
	if s.missing >= unseen { // what was safe before is again, if use is known again soon
		exact = whole
	}
	if exact < s.Told || exact >= s.Told+notch || exact == most {
		s.Told = exact
	}
	s.At = now
}

// decision says what stands.
func (s *State) decision(p *Params) Decision {
	d := Decision{Percent: s.Told, Hours: s.hours()}
	d.Peak = int(math.Ceil(whole * s.peak()))
	allowed := int(s.allowed(p))
	switch {
	case s.missing >= unseen:
		d.Reason, d.Message = Unknown, "what services use, or how long they wait, is not known"
	case d.Hours < p.Learn:
		d.Reason, d.Message = Learning, fmt.Sprintf("use was seen in %d hours of the week; %d are needed", d.Hours, p.Learn)
	case s.harmed != "":
		d.Reason, d.Message = Harm, s.harmed
	case d.Percent >= p.Max:
		d.Reason, d.Message = Most, fmt.Sprintf("services used at most %d%% of what they asked for; no more than %d%% is configured", d.Peak, p.Max)
	case allowed < d.Percent+notch:
		d.Reason, d.Message = Peak, fmt.Sprintf("services used up to %d%% of what they asked for, and may fill %.0f%% of the CPUs", d.Peak, whole*p.Target)
	default:
		d.Reason, d.Message = Rising, fmt.Sprintf("services used at most %d%% of what they asked for; that allows %d%%, %.0f points more an hour", d.Peak, allowed, p.Rise)
	}
	return d
}
