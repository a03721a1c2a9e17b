package interference

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Signal is something that harm shows in.
type Signal int

// The signals: how long threads wait for a CPU, the share of time in which some do, the service's own indicator, such as CPU time by request, and the cycles that its instructions take, by
// the processor's counters.
const (
	Delay Signal = iota
	Pressure
	Indicator
	Cycles
	signals
)

func (s Signal) String() string {
	return [...]string{"run delay", "CPU pressure", "indicator", "cycles per instruction"}[s]
}

// known reports whether a value says something of the signal. No instruction takes no cycles: there 0 is a counter that did not count.
func (s Signal) known(v float64) bool {
	return v >= 0 && !math.IsInf(v, 0) && (s != Cycles || v > 0)
}

// Neighbour is what runs beside the service.
type Neighbour struct {
	Name string
	// Use is its CPUs in use in the window; NaN is not known.
	Use float64
	// Limited: it has a limit as a culprit. Wants: it uses all that this leaves it, and used more before.
	Limited, Wants bool
	// Harmed: it is a service, and is harmed in the window itself.
	Harmed bool
	// Bandwidth is the memory bandwidth that it takes, in bytes per second; NaN is not known.
	Bandwidth float64
	// Ahead is how much of the window's Waited it was that ran meanwhile. Where Waited is not known it says nothing.
	Ahead float64
}

// Window is what was seen of a service in some seconds. NaN is not known.
type Window struct {
	// Load is what the service had to do, as a share of the most: requests, or its CPU use without an indicator.
	Load       float64
	Signals    [signals]float64
	Neighbours []Neighbour
	// Waited is how long the service's threads waited while something ran on their CPU, in CPUs, where Probed: something has looked who that was. It may be a neighbour, the service
	// itself, or what is no pod.
	Waited float64
	Probed bool
}

// Params are what harm is told by.
type Params struct {
	// Bins of load from 0 to 1; Weight is of a new window in the baseline, Enough how many windows a bin needs.
	Bins   int
	Weight float64
	Enough int
	// High is how many deviations beyond the baseline a residual is high, and Least is the least deviation as a share of the baseline's mean.
	High, Least float64
	// Floor is the least deviation of each signal, in its unit: CPUs that wait, a share of time, and of the indicator and of cycles per instruction none.
	Floor [signals]float64
	// Windows in a row have to be high; Kept is over how many neighbours are correlated, and Correlation is the least that names one.
	Windows, Kept int
	Correlation   float64
	// Behind is the share of the service's waiting behind one neighbour from which on that one is named, whatever correlates.
	Behind float64
	// Rise is how much a neighbour's memory bandwidth has to rise with the harm, as a share of what all neighbours took before, for that to name it where nobody waits; 0: it names nobody.
	Rise float64
	// Patience is how many windows a step of the ladder has to help, Quiet how many calm windows take all of it back.
	Patience, Quiet int
	// Apart is for how long the scheduler keeps the two apart.
	Apart time.Duration
}

// DefaultParams are for windows of ten seconds.
func DefaultParams() Params {
	return Params{
		Bins: 10, Weight: 0.05, Enough: 30, High: 6, Least: 0.05, Floor: [signals]float64{0.2, 0.05, 0, 0}, Windows: 3, Kept: 60, Correlation: 0.7, Behind: 0.5, Rise: 0.5, Patience: 3, Quiet: 60, Apart: time.Hour,
	}
}

// Bounds of a Watch's memory.
const (
	maxBins = 100
	maxKept = 1000
	// maxNeighbours bounds those that are correlated: the others are too many for a node.
	maxNeighbours = 512
	// maxTried bounds the culprits of one harm that are remembered to have been limited in vain.
	maxTried = 8
	// blindFor is how many windows in a row may say nothing of a harm until what is done for it is taken back.
	blindFor = 60
)

// Validate says what is wrong with the parameters.
func (p *Params) Validate() error {
	switch {
	case p.Bins < 1 || p.Bins > maxBins || !(p.Weight > 0 && p.Weight <= 1) || p.Enough < 2:
		return fmt.Errorf("interference: %d bins, weight %g, enough %d: want 1 to %d bins, a weight above 0 and at most 1, at least 2 windows", p.Bins, p.Weight, p.Enough, maxBins)
	case slices.ContainsFunc(p.Floor[:], func(f float64) bool { return !(f >= 0) }):
		return fmt.Errorf("interference: floors %v: want at least 0", p.Floor)
	case !(p.High > 0 && p.Least > 0 && p.Correlation > 0 && p.Correlation <= 1):
		return fmt.Errorf("interference: high %g, least %g, correlation %g: want more than 0, and a correlation of at most 1", p.High, p.Least, p.Correlation)
	case !(p.Behind > 0 && p.Behind <= 1):
		return fmt.Errorf("interference: %g of the waiting behind a neighbour: want more than 0 and at most 1", p.Behind)
	case !(p.Rise >= 0) || math.IsInf(p.Rise, 0):
		return fmt.Errorf("interference: a rise of %g of the memory bandwidth: want at least 0", p.Rise)
	case p.Windows < 3 || p.Kept < 2*p.Windows || p.Kept > maxKept:
		return fmt.Errorf("interference: %d windows of %d kept: want at least 3, at least twice as many kept, and at most %d", p.Windows, p.Kept, maxKept)
	case p.Patience < 1 || p.Quiet < p.Patience || p.Apart < 0:
		return errors.New("interference: want a patience of at least a window, as many quiet ones at the least, and a time apart of at least 0")
	}
	return nil
}

// Kind is what an Action does.
type Kind string

// The steps of the ladder, and taking them back.
const (
	StopGrowth Kind = "stop growth"
	Narrow     Kind = "narrow"
	Evict      Kind = "evict"
	KeepApart  Kind = "keep apart"
	Release    Kind = "release"
)

// Action is one thing to do.
type Action struct {
	Kind Kind
	// Neighbour is whom it is done to; empty of StopGrowth, which holds for all.
	Neighbour string
	// Until is when a KeepApart ends.
	Until  time.Time
	Reason string
	// Harm is the part of Reason that says what is wrong. Evidence is why the neighbour is named.
	Harm     string
	Evidence Evidence
}

// baseline is what a signal usually is at a load.
type baseline struct {
	mean, deviation float64
	seen            int
}

// Watch is what is remembered of a service. It has a bounded size.
type Watch struct {
	params    *Params
	bins      [][signals]baseline
	residuals []float64          // of the last windows, the newest last
	windows   []seen             // what they are of
	past      map[string]*past   // of neighbours
	ahead     map[string]float64 // of neighbours, in the windows in a row that are high
	waited    float64            // in the same windows
	waits     bool               // in one of them threads waited beyond what is usual, or that is not known
	partial   int                // for so many windows more some neighbour that was there is not in past
	high      int                // windows in a row
	calm      int                // windows without harm since the last one with it
	blind     int                // windows in a row that say nothing of the harm
	shows     [signals]bool      // what this harm was seen in
	since     int                // windows since the last step
	step      int                // of the ladder, 0: none
	culprit   string
	tried     []string // those who were limited for this harm, which stayed
	before    float64  // how high the harm was when the culprit was limited
}

// NewWatch returns an empty one. The parameters have to be valid and stay as they are.
func NewWatch(p *Params) *Watch {
	return &Watch{params: p, bins: make([][signals]baseline, p.Bins), past: make(map[string]*past), ahead: make(map[string]float64)}
}

// Alarm says whether the service is harmed as far as is known, and the neighbour that is named; it may be empty.
func (w *Watch) Alarm() (bool, string) { return w.step > 0, w.culprit }

// High reports whether a window shows harm, as far as is known; it changes nothing.
func (w *Watch) High(x *Window) bool {
	if !(x.Load >= 0) || math.IsInf(x.Load, 0) {
		return false
	}
	residual, _ := w.residual(w.bin(x.Load), x)
	return residual > w.params.High
}

// Harmed reports whether harm was seen in enough of the last windows, in a row.
func (w *Watch) Harmed() bool { return w.high >= w.params.Windows }

// Calm reports whether the last window is known to have been without harm.
func (w *Watch) Calm() bool { return w.high == 0 && w.blind == 0 && w.calm > 0 }

// Restart takes the ladder back to where nothing is said. What is usual, and the last windows, stay known.
func (w *Watch) Restart() {
	w.high, w.calm, w.since = 0, 0, 0
	w.clear()
	w.clearProbe()
}

// clear ends what is done about a harm.
func (w *Watch) clear() {
	w.step, w.blind, w.culprit, w.tried, w.shows = 0, 0, "", nil, [signals]bool{}
}

// See tells a window, and returns what to do.
func (w *Watch) See(x *Window, now time.Time) []Action {
	if !(x.Load >= 0) || math.IsInf(x.Load, 0) {
		w.high = 0
		w.blind++
		w.clearProbe()
		return w.release()
	}
	bin := w.bin(x.Load)
	residual, which := w.residual(bin, x)
	w.remember(residual, x)
	switch {
	case residual > w.params.High:
		w.high++
		w.calm, w.blind = 0, 0
		w.addProbe(x)
		w.waits = w.waits || w.mayWait(bin, x)
		for s := range signals {
			w.shows[s] = w.shows[s] || w.of(bin, x, s) > w.params.High
		}
	case math.IsNaN(residual) || w.hidden(bin, x): // that is not calm
		w.high = 0
		w.blind++
		w.clearProbe()
	default:
		w.high, w.blind = 0, 0
		w.calm++
		w.clearProbe()
	}
	if w.step == 0 && w.high == 0 {
		w.shows = [signals]bool{}
		if learn(&w.bins[bin], x, w.params) {
			w.judgeAgain()
		}
	}
	return w.decide(residual, which, now)
}

// hidden reports whether something that the harm was seen in is not known now.
func (w *Watch) hidden(bin int, x *Window) bool {
	for s := range signals {
		if w.step > 0 && w.shows[s] && math.IsNaN(w.of(bin, x, s)) {
			return true
		}
	}
	return false
}

// mayWait reports whether threads waited beyond what is usual, or may have: how long they did is not known. At a load that was never seen, it is known that they did not where they waited no longer
// than is usual at less: waiting grows with use. Pressure alone does not tell, for it is a share of time in which one thread may wait or many.
func (w *Watch) mayWait(bin int, x *Window) bool {
	for i := bin; i >= 0; i-- {
		if w.bins[i][Delay].seen >= w.params.Enough {
			return !Delay.known(x.Signals[Delay]) || w.beyond(&w.bins[i][Delay], x, Delay) > w.params.High || w.of(bin, x, Pressure) > w.params.High
		}
	}
	return true
}

// Learned reports whether a baseline at a load is known.
func (w *Watch) Learned(load float64) bool {
	if !(load >= 0) || math.IsInf(load, 0) {
		return false
	}
	bin := &w.bins[w.bin(load)]
	return slices.ContainsFunc(bin[:], func(b baseline) bool { return b.seen >= w.params.Enough })
}

// bin is the number of the bin of a load.
func (w *Watch) bin(load float64) int {
	return min(int(min(load, 1)*float64(w.params.Bins)), w.params.Bins-1)
}

// baseline is that of a signal in a bin. Of the indicator and of cycles, where this bin is not known, it is that of the nearest bin below which is: a service that is slowed works longer for
// the same requests, and its use takes it to where it never was. Waiting grows with use, and is not compared so.
func (w *Watch) baseline(bin int, s Signal) *baseline {
	for i := bin; (s == Indicator || s == Cycles) && i >= 0; i-- {
		if w.bins[i][s].seen >= w.params.Enough {
			return &w.bins[i][s]
		}
	}
	return &w.bins[bin][s]
}

// residual is how many deviations the worst of the signals is beyond its baseline; NaN: none is known.
func (w *Watch) residual(bin int, x *Window) (float64, Signal) {
	most, which := math.NaN(), Delay
	for s := range signals {
		if r := w.of(bin, x, s); !math.IsNaN(r) && !(r <= most) {
			most, which = r, s
		}
	}
	return most, which
}

// of is how many deviations a signal is beyond its baseline; NaN: it is not known.
func (w *Watch) of(bin int, x *Window, s Signal) float64 {
	b, v := w.baseline(bin, s), x.Signals[s]
	if b.seen < w.params.Enough || !s.known(v) {
		return math.NaN()
	}
	return w.beyond(b, x, s)
}

// beyond is how many deviations a known signal is beyond a baseline.
func (w *Watch) beyond(b *baseline, x *Window, s Signal) float64 {
	return (x.Signals[s] - b.mean) / max(b.deviation, w.params.Least*b.mean, w.params.Floor[s], 1e-9)
}

// judgeAgain judges those of the last windows of which nothing was known, for a baseline has become known: of these windows it is made, and what they were is known now.
func (w *Watch) judgeAgain() {
	for i, r := range w.residuals {
		if math.IsNaN(r) && w.windows[i].load >= 0 {
			w.residuals[i], _ = w.residual(w.bin(w.windows[i].load), &Window{Signals: w.windows[i].signals})
		}
	}
}

// learn moves the baseline to a quiet window. It reports whether that of a signal has become known.
func learn(bin *[signals]baseline, x *Window, p *Params) (known bool) {
	for s := range signals {
		v, b := x.Signals[s], &bin[s]
		if !s.known(v) {
			continue
		}
		b.seen++
		weight := max(p.Weight, 1/float64(b.seen))
		b.deviation += weight * (math.Abs(v-b.mean) - b.deviation)
		if b.seen == 1 {
			b.deviation = 0
		}
		b.mean += weight * (v - b.mean)
		known = known || b.seen == p.Enough
	}
	return known
}
