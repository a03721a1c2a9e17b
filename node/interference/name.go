package interference

import (
	"fmt"
	"math"
	"strings"
)

// Evidence is why a neighbour is named: either its use goes with the harm, or the service's threads waited while it ran. The second is seen and not inferred, and counts for more.
//
//	Evidence{Behind: 0.85}.Of("batch/hog") // threads waited behind batch/hog for 85 % of their waiting
type Evidence struct {
	Correlation float64
	// Behind is the share of the service's waiting; 0: nothing has looked.
	Behind float64
}

// Of is the evidence against a neighbour in words.
func (e Evidence) Of(name string) string {
	if e.Behind > 0 {
		return fmt.Sprintf("threads waited behind %s for %.0f %% of their waiting", name, 100*e.Behind)
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
	w.waited = 0
}

// name finds the neighbour that harms. Where the harm is waiting, and it was seen for whom, that is who it is if most of the waiting was for one; and nobody is named for whom the service
// hardly waited. Else it is whose use goes with the harm.
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
	name, r := w.correlated(func(name string) bool { return !probed || w.ahead[name] >= cleared*w.waited })
	return name, Evidence{Correlation: r}
}

// correlated finds the neighbour whose use goes with the residuals: the greatest correlation, times how much its use grew to the high windows.
func (w *Watch) correlated(harms func(name string) bool) (string, float64) {
	calm := 0
	for _, r := range w.residuals {
		if r <= w.params.High {
			calm++
		}
	}
	if calm*4 < len(w.residuals) {
		return "", 0 // harm all the time goes with everything that stays, and with what chances to rise
	}
	best, most, strength := "", 0.0, 0.0
	for name, uses := range w.uses {
		c, slope := correlation(w.residuals, uses)
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
