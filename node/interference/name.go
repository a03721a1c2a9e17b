package interference

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Evidence is why a neighbour is named: its use goes with the harm; its memory bandwidth does, where nobody waits; or the service's threads waited while it ran. The last is seen and not
// inferred, and counts for more.
//
//	Evidence{Behind: 0.85}.Of("batch/hog") // threads waited behind batch/hog for 85 % of their waiting
type Evidence struct {
	Correlation float64
	// From and To are its memory bandwidth in calm windows and in those with harm, in bytes per second, where that is what goes with it; 0: it is its use.
	From, To float64
	// Behind is the share of the service's waiting; 0: nothing has looked.
	Behind float64
	// Limited: it is limited already and would use more, and it is its use before that which goes with the harm.
	Limited bool
}

// Of is the evidence against a neighbour in words.
func (e Evidence) Of(name string) string {
	if e.Behind > 0 {
		return fmt.Sprintf("threads waited behind %s for %.0f %% of their waiting", name, 100*e.Behind)
	}
	if e.To > 0 {
		const giga = 1e9
		return fmt.Sprintf("the memory bandwidth of %s goes with it, from %.1f to %.1f GB/s (correlation %.2f)", name, e.From/giga, e.To/giga, e.Correlation)
	}
	if e.Limited {
		return fmt.Sprintf("the use of %s went with it until it was limited (correlation %.2f), and would again", name, e.Correlation)
	}
	return fmt.Sprintf("the use of %s goes with it (correlation %.2f)", name, e.Correlation)
}

// cleared is the share of the waiting below which a neighbour is not whom a service waits for, however well its use goes with it.
const cleared = 0.05

// Suspects reports whether it would help to know whom the service's threads wait for: a window was high, and nobody is named.
func (w *Watch) Suspects() bool { return w.high > 0 && w.culprit == "" }

// addProbe adds up whom the service waited for in the high windows in a row.
func (w *Watch) addProbe(x *Window) {
	if !x.Probed || !(x.Waited > 0) || math.IsInf(x.Waited, 0) || slices.ContainsFunc(x.Neighbours, func(n Neighbour) bool { return math.IsNaN(orUnknown(n.Ahead)) }) {
		return
	}
	w.waited += x.Waited
	for i := range x.Neighbours {
		n := &x.Neighbours[i]
		if _, known := w.ahead[n.Name]; n.Ahead > 0 && (known || len(w.ahead) < maxNeighbours) {
			w.ahead[n.Name] += n.Ahead
		}
	}
}

func (w *Watch) clearProbe() {
	clear(w.ahead)
	w.waited, w.waits = 0, false
}

// name finds the neighbour that harms. Where the harm is waiting, and it was seen for whom, that is who it is if most of the waiting was for one; and nobody is named for whom the service
// hardly waited. Where the service got slower and waits for nobody, or its instructions are slower, it is whose memory bandwidth goes with the harm. Else it is whose use does. Where it is not known
// whether the service waits, it may be that which slows it.
func (w *Watch) name(harm Signal) (string, Evidence) {
	probed := (harm == Delay || harm == Pressure) && w.waited > 0
	if probed {
		best, most := "", 0.0
		for name, ahead := range w.ahead {
			if ahead > most || ahead == most && strings.Compare(name, best) < 0 {
				best, most = name, ahead
			}
		}
		if share := most / w.waited; share >= w.params.Behind {
			return best, Evidence{Behind: min(share, 1)}
		}
	}
	if !w.waits || w.shows[Cycles] { // nor is it waiting alone that is the harm: slower instructions keep CPUs busy for longer, and have threads wait for these
		if name, evidence := w.loads(); name != "" {
			return name, evidence
		}
	}
	return w.correlated(func(name string) bool { return !probed || w.ahead[name] >= cleared*w.waited })
}

const (
	// rival is how strong another suspect has to be, by the strength of one who is limited while the harm stays, to be limited in its place.
	rival = 0.5
	// surely is the least correlation that names one who is limited already by what it used before, when it does not by what it uses now.
	surely = 0.8
	// slight is the share of the rise of a service that is harmed itself from which on another neighbour comes before it: who is slowed uses more CPU for the same requests, so that two services
	// that are harmed by a third go with each other's harm.
	slight = 0.5
)

// suspect is a neighbour whose use goes with the harm.
type suspect struct {
	name        string
	correlation float64
	strength    float64
	rise        float64 // of its use from calm windows to those with harm
	limited     bool
}

// or is the more likely one of two: of those that go with the harm about as well, the one whose use rose most.
func (s suspect) or(other suspect) suspect {
	if other.strength > s.strength || other.strength == s.strength && other.name != "" && strings.Compare(other.name, s.name) < 0 {
		return other
	}
	return s
}

// suspect judges a neighbour by its use. A limit makes a culprit use less whether or not the harm stays, so that its use says less and less while it does. One who would use more than its limit
// leaves is judged by the windows before it too. How well these went with the harm does not change any more, so that more is asked of them.
func (w *Watch) suspect(name string) (suspect, bool) {
	p := w.past[name]
	of := func(use []float64, least float64) suspect {
		c, deviation := correlation(w.residuals, use)
		if c < least {
			return suspect{}
		}
		from, to, _ := w.means(use)
		return suspect{name: name, correlation: c, strength: c * c * math.Sqrt(max(deviation, 0)), rise: to - from}
	}
	s := of(p.use, w.params.Correlation)
	if p.wants {
		before := of(p.free, max(w.params.Correlation, surely))
		rise := max(before.rise, s.rise)
		if before.strength > s.strength {
			s = before
			s.limited = true
		}
		s.rise = rise
	}
	return s, s.strength > 0
}

// correlated finds the neighbour whose use goes with the residuals: the greatest correlation, times how much its use grew to the high windows. A culprit that is limited while the harm stays remains
// the one, unless another that was not limited for this harm yet is nearly as likely: that one is tried before anybody has to go.
func (w *Watch) correlated(harms func(name string) bool) (string, Evidence) {
	if !w.wasCalm() {
		return "", Evidence{}
	}
	var best, untried, limited, victim suspect // limited: the culprit; victim: the best of those that are harmed themselves
	for name := range w.past {
		s, is := w.suspect(name)
		switch {
		case !is || !w.past[name].here || !harms(name): // who has gone harms no more
			continue
		case w.past[name].harmed:
			victim = s.or(victim)
			continue
		case name == w.culprit && w.step >= 2:
			limited = s
		case !slices.Contains(w.tried, name):
			untried = s.or(untried)
		}
		best = s.or(best)
	}
	if limited.name != "" {
		best = limited
		if untried.strength >= rival*limited.strength {
			best = untried
		}
	}
	if slight*victim.rise > best.rise {
		best = victim
	}
	return best.name, Evidence{Correlation: best.correlation, Limited: best.limited}
}

// wasCalm reports whether a quarter of the last windows was calm: harm all the time goes with everything that stays, and with what chances to rise.
func (w *Watch) wasCalm() bool {
	calm := 0
	for _, r := range w.residuals {
		if r <= w.params.High {
			calm++
		}
	}
	return calm*4 >= len(w.residuals)
}

const (
	// leastRise of a neighbour's memory bandwidth names it, in bytes per second: less fills no bus.
	leastRise = 1e9
	// mostPerCPU is more than a CPU moves to and from memory, in bytes per second.
	mostPerCPU = 30e9
)

// loads finds the neighbour whose memory bandwidth goes with the harm and rose most, if it rose by enough of what all took before: a small one that chances to come does not fill the bus.
// Where the use of one goes with the harm whose bandwidth is not known, it may be that one, and bandwidth names nobody. What is not known of another's is taken for the most that its CPUs may
// have moved; where these are not known either, or a neighbour found no room, nor is what all took, and nobody is named.
func (w *Watch) loads() (string, Evidence) {
	if w.params.Rise <= 0 || w.partial > 0 || !w.wasCalm() {
		return "", Evidence{}
	}
	best, most, rose, all := "", Evidence{}, leastRise, 0.0
	for _, name := range slices.Sorted(maps.Keys(w.past)) { // the same order gives the same sum
		p := w.past[name]
		from, to, known := w.means(p.bandwidth)
		if !known {
			used, _, usedKnown := w.means(p.use)
			if c, _ := correlation(w.residuals, p.use); !usedKnown || c >= w.params.Correlation {
				return "", Evidence{}
			}
			all += used * mostPerCPU
			continue
		}
		all += from
		if c, _ := correlation(w.residuals, p.bandwidth); p.here && c >= w.params.Correlation && to-from > rose {
			best, most, rose = name, Evidence{Correlation: c, From: from, To: to}, to-from
		}
	}
	if rose < w.params.Rise*all {
		return "", Evidence{}
	}
	return best, most
}

// means are those of what is known in calm windows and in the others; known is false where one of them has none.
func (w *Watch) means(list []float64) (calm, high float64, known bool) {
	var sums, n [2]float64
	for i, r := range w.residuals {
		if v := list[i]; v >= 0 && !math.IsInf(v, 0) && !math.IsNaN(r) {
			k := 0
			if r > w.params.High {
				k = 1
			}
			sums[k] += v
			n[k]++
		}
	}
	if n[0] == 0 || n[1] == 0 {
		return 0, 0, false
	}
	return sums[0] / n[0], sums[1] / n[1], true
}

// correlation is Pearson's, of what is known of both, and the deviation of ys.
func correlation(xs, ys []float64) (r, deviation float64) {
	n, sx, sy := 0.0, 0.0, 0.0
	for i, x := range xs {
		if !math.IsNaN(x) && !math.IsNaN(ys[i]) {
			n++
			sx += bounded(x)
			sy += ys[i]
		}
	}
	if n < 6 {
		return 0, 0
	}
	sx, sy = sx/n, sy/n
	xx, yy, xy := 0.0, 0.0, 0.0
	for i, x := range xs {
		if !math.IsNaN(x) && !math.IsNaN(ys[i]) {
			dx, dy := bounded(x)-sx, ys[i]-sy
			xx += dx * dx
			yy += dy * dy
			xy += dx * dy
		}
	}
	if xx <= 0 || yy <= 0 {
		return 0, 0
	}
	return xy / math.Sqrt(xx*yy), math.Sqrt(yy / n)
}

// bounded keeps one extreme window from deciding alone.
func bounded(residual float64) float64 { return min(max(residual, -10), 30) }
