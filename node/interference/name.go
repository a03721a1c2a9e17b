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
	return fmt.Sprintf("the use of %s goes with it (correlation %.2f)", name, e.Correlation)
}

// cleared is the share of the waiting below which a neighbour is not whom a service waits for, however well its use goes with it.
const cleared = 0.05

// Suspects reports whether it would help to know whom the service's threads wait for: a window was high, and nobody is named.
func (w *Watch) Suspects() bool { return w.high > 0 && w.culprit == "" }

// addProbe adds up whom the service waited for in the high windows in a row.
func (w *Watch) addProbe(x *Window) {
	if !x.Probed || !(x.Waited > 0) || math.IsInf(x.Waited, 0) {
		return
	}
	w.waited += x.Waited
	for i := range x.Neighbours {
		n := &x.Neighbours[i]
		if _, known := w.ahead[n.Name]; n.Ahead > 0 && !math.IsInf(n.Ahead, 0) && (known || len(w.ahead) < maxNeighbours) {
			w.ahead[n.Name] += n.Ahead
		}
	}
}

func (w *Watch) clearProbe() {
	clear(w.ahead)
	w.waited, w.waits = 0, false
}

// name finds the neighbour that harms. Where the harm is waiting, and it was seen for whom, that is who it is if most of the waiting was for one; and nobody is named for whom the service
// hardly waited. Where the service got slower and waits for nobody, it is whose memory bandwidth goes with the harm. Else it is whose use does.
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
	if !w.waits { // nor is it waiting that is the harm
		if name, evidence := w.loads(); name != "" {
			return name, evidence
		}
	}
	name, r := w.correlated(func(name string) bool { return !probed || w.ahead[name] >= cleared*w.waited })
	return name, Evidence{Correlation: r}
}

// correlated finds the neighbour whose use goes with the residuals: the greatest correlation, times how much its use grew to the high windows.
func (w *Watch) correlated(harms func(name string) bool) (string, float64) {
	if !w.wasCalm() {
		return "", 0
	}
	best, most, strength := "", 0.0, 0.0
	for name, p := range w.past {
		c, slope := correlation(w.residuals, p.use)
		if c < w.params.Correlation || !harms(name) {
			continue
		}
		// Of those that go with it about as well, the one whose use rose most.
		if score := c * c * math.Sqrt(max(slope, 0)); score > strength || score == strength && strings.Compare(name, best) < 0 {
			best, most, strength = name, c, score
		}
	}
	return best, most
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

// leastRise of a neighbour's memory bandwidth names it, in bytes per second: less fills no bus.
const leastRise = 1e9

// loads finds the neighbour whose memory bandwidth goes with the harm and rose most, if it rose by enough of what all took before: a small one that chances to come does not fill the bus.
// Where the use of one goes with the harm whose bandwidth is not known, it may be that one, and bandwidth names nobody.
func (w *Watch) loads() (string, Evidence) {
	if w.params.Rise <= 0 || !w.wasCalm() {
		return "", Evidence{}
	}
	best, most, rose, all := "", Evidence{}, leastRise, 0.0
	for _, name := range slices.Sorted(maps.Keys(w.past)) { // the same order gives the same sum
		p := w.past[name]
		from, to, known := w.means(p.bandwidth)
		if !known {
			if c, _ := correlation(w.residuals, p.use); c >= w.params.Correlation {
				return "", Evidence{}
			}
			continue
		}
		all += from
		if c, _ := correlation(w.residuals, p.bandwidth); c >= w.params.Correlation && to-from > rose {
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
