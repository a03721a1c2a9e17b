package interference

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/interference"
	"hilbert.dev/hilbert/sim/corun"
)

// Ladder is how far the steps against a culprit went on mixes in which an agent's Book acts with its default rules.
type Ladder struct {
	// Sees is what is seen of the services. Hog says how the hog begins, and Limit what a limit takes of the harm.
	Sees  string `json:"sees"`
	Hog   string `json:"hog"`
	Limit string `json:"limit"`
	Mixes int    `json:"mixes"`
	// Harmed are the mixes whose hog harmed a service, Limited those of them in which the hog was limited, and Evicted those in which it was evicted.
	Harmed  int `json:"harmed"`
	Limited int `json:"limited"`
	Evicted int `json:"evicted"`
	// Needless are those of the evictions of hogs while no service was late any more.
	Needless int `json:"needless"`
	// Others are mixes, of all, in which a neighbour was evicted that is not the hog.
	Others int `json:"othersEvicted"`
	// EvictedAfter is the median of seconds from when the hog came until it was evicted, EvictedMost the longest.
	EvictedAfter float64 `json:"secondsToEviction"`
	EvictedMost  float64 `json:"longestSecondsToEviction"`
	// Closest are the fewest seconds between two evictions on a machine; 0: no machine had two.
	Closest float64 `json:"fewestSecondsBetweenEvictions"`
}

// The ways in which a hog begins, and what a limit takes of its harm.
const (
	hogComes = "comes"
	hogGrows = "grows" // it was there, and wants half as much CPU again

	limitHelps   = "takes the harm with it"
	limitNothing = "takes nothing of it"
)

// ladderWay is a kind of mix in which a Book acts.
type ladderWay struct{ sees, hog, limit string }

func ladderWays() (list []ladderWay) {
	for _, sees := range []string{asAgent, withCycles} {
		list = append(list, ladderWay{sees, hogComes, limitHelps}, ladderWay{sees, hogComes, limitNothing}, ladderWay{sees, hogGrows, limitNothing})
	}
	return list
}

// acting is a mix whose services an agent's Book watches.
type acting struct {
	*mix

	way     ladderWay
	book    *interference.Book
	rules   interference.Rules
	wants   []float64 // what each neighbour would run, without a limit
	limits  map[string]float64
	limited bool
	evicted []eviction
	// named is the first who is named by the agent that runs, and since when.
	named   string
	namedAt int
	// outage is when no agent runs; nil: one always does. kept is what it knew.
	outage *outage
	kept   []byte
	err    error
}

// eviction is one that was decided.
type eviction struct {
	window int
	hog    bool
}

// newActing draws a mix with a hog of memory bandwidth or cache: what a limit takes of that can be chosen.
func newActing(seed uint64, hog bool, w ladderWay, o *Options) *acting {
	a := &acting{mix: newMix(seed, false, way{name: w.sees, cycles: w.sees == withCycles}, &o.Params), way: w, rules: interference.DefaultRules(), limits: make(map[string]float64)}
	a.rules.Watch = o.Params
	a.book = interference.NewBook(&a.rules)
	if hog {
		job := corun.Job{ID: 100, Demand: 8 + 6*a.loads.Float64(), Work: 1e9, Bandwidth: 12 + 6*a.loads.Float64(), Cache: 0.5, Memory: 2 << 30}
		a.hog, a.out.hog = len(a.neighbours), true
		a.neighbours = append(a.neighbours, neighbour{name: "hog", job: job})
	}
	for i := range a.neighbours {
		a.wants = append(a.wants, a.neighbours[i].job.Demand)
	}
	return a
}

// play lets the mix pass.
func (a *acting) play() {
	for w := range totalWindows {
		a.begin(w)
		a.change(w)
		before := *a.node.Measured()
		offered := a.load(w)
		for range windowSeconds {
			a.node.Step(offered)
		}
		after := a.node.Measured()
		a.late = append(a.late, float64(after.Late-before.Late)/float64(max(after.Seconds-before.Seconds, 1)))
		if readings := a.readings(w, offered); !a.dead(w) {
			a.decide(w, readings)
		}
	}
	a.judge()
}

// begin has a hog that grows be there from the start, with two thirds of its CPU and a bandwidth that harms nobody.
func (a *acting) begin(w int) {
	if a.hog < 0 || a.way.hog != hogGrows {
		return
	}
	const before = 2. / 3
	n := &a.neighbours[a.hog]
	switch w {
	case 0:
		small := n.job
		small.Demand, small.Bandwidth = before*small.Demand, 0.5
		a.node.Start(small)
	case a.hogAt:
		a.node.End(n.job.ID)
	}
}

// decide shows a window to the Book, and does what it says.
func (a *acting) decide(w int, readings []interference.Reading) {
	d := a.book.Step(windowTime(w), readings)
	if d == nil {
		return
	}
	for i := range d.Findings {
		if who := d.Findings[i].Culprit; a.named == "" && who != "" {
			a.named, a.namedAt = who, w
		}
	}
	wanted := make(map[string]float64)
	for _, l := range d.Limits {
		wanted[l.ID] = l.CPUs
	}
	for i := range a.neighbours {
		n := &a.neighbours[i]
		if !n.gone && d.Evict == n.name {
			a.evicted = append(a.evicted, eviction{w, i == a.hog})
			n.gone = true
			if n.on {
				a.node.End(n.job.ID)
			}
			n.on = false
		}
		a.limit(i, wanted[n.name])
	}
	a.limits = wanted
}

// limit lets a neighbour run so many CPUs; 0: as many as it wants. What a limit takes nothing of goes on to move as much memory.
func (a *acting) limit(i int, cpus float64) {
	n := &a.neighbours[i]
	if cpus == a.limits[n.name] {
		return
	}
	a.limited = a.limited || i == a.hog
	was := n.job.Demand
	n.job.Demand = a.wants[i]
	if cpus > 0 {
		n.job.Demand = min(a.wants[i], cpus)
	}
	if a.way.limit == limitNothing {
		n.job.Bandwidth *= was / n.job.Demand
		n.job.Cache *= was / n.job.Demand
	}
	if n.on {
		a.node.End(n.job.ID)
		a.node.Start(n.job)
	}
}

// readings are what an agent reads in a window.
func (a *acting) readings(w int, offered []float64) (list []interference.Reading) {
	a.node.Observe(&a.seen, time.Duration(w*windowSeconds)*time.Second, time.Time{})
	measured := func(x float64) float64 { return max(x*(1+noise*a.random.NormFloat64()), 0) }
	none := math.NaN()
	for i := range a.neighbours {
		n := &a.neighbours[i]
		at := slices.IndexFunc(a.seen.Reclaimed, func(r advise.Reclaimed) bool { return r.ID == strconv.FormatInt(n.job.ID, 10) })
		if at < 0 {
			continue
		}
		list = append(list, interference.Reading{
			ID: n.name, Name: n.name, Limitable: true, Evictable: true, Use: measured(a.seen.Reclaimed[at].CPUUse.Value), Delay: none, Pressure: none, Indicator: none, Cycles: none, Bandwidth: none,
		})
	}
	for i := range a.services {
		use := a.seen.Services[i].CPUUse.Value
		id := fmt.Sprint("service-", i)
		r := interference.Reading{
			ID: id, Name: id, Watched: true, Request: a.services[i].Request, Use: measured(use), Delay: measured(a.seen.NUMANodes[a.services[i].NUMANode].SharedDelay.Value),
			Pressure: measured(a.seen.Services[i].CPUPressure.Value), Indicator: none, Cycles: none, Bandwidth: none,
		}
		if a.sees.cycles {
			r.Cycles = a.cycles(i)
		} else {
			r.Indicator = measured(use / offered[i])
		}
		list = append(list, r)
	}
	return list
}

// runLadder plays the mixes in which a Book acts.
func runLadder(ctx context.Context, o *Options, tell func()) (out []Ladder, err error) {
	for _, w := range ladderWays() {
		l := Ladder{Sees: w.sees, Hog: w.hog, Limit: w.limit}
		var after []float64
		for n := range o.Seeds {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			tell()
			a := newActing(o.seed(n), n%2 == 0, w, o)
			a.play()
			after = l.add(a, after)
		}
		l.EvictedAfter = median(after)
		out = append(out, l)
	}
	return out, nil
}

// add counts a mix. after are the seconds until hogs were evicted.
func (l *Ladder) add(a *acting, after []float64) []float64 {
	l.Mixes++
	if slices.ContainsFunc(a.evicted, func(e eviction) bool { return !e.hog }) {
		l.Others++
	}
	for i := 1; i < len(a.evicted); i++ {
		if gap := float64((a.evicted[i].window - a.evicted[i-1].window) * windowSeconds); l.Closest == 0 || gap < l.Closest {
			l.Closest = gap
		}
	}
	if !a.out.harmed {
		return after
	}
	l.Harmed++
	if a.limited {
		l.Limited++
	}
	if at := slices.IndexFunc(a.evicted, func(e eviction) bool { return e.hog }); at >= 0 {
		seconds := float64((a.evicted[at].window - a.hogAt + 1) * windowSeconds)
		l.Evicted++
		if !a.stillLate(a.evicted[at].window) {
			l.Needless++
		}
		l.EvictedMost = max(l.EvictedMost, seconds)
		after = append(after, seconds)
	}
	return after
}

// stillLate reports whether services were late in the windows that led to an eviction.
func (a *acting) stillLate(w int) bool {
	return mean(a.late[w-calmWindows+1:w+1]) > mean(a.late[learnWindows/2:a.hogAt])+harm
}
