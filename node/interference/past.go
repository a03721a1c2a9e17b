package interference

import (
	"maps"
	"math"
	"slices"
)

// seen is what was seen of the service itself in a window.
type seen struct {
	load    float64
	signals [signals]float64
}

// past is what a neighbour took in the last windows, each list as long as Watch.residuals: CPUs, CPUs in windows in which no limit kept it from more, and memory bandwidth. NaN is not known.
type past struct {
	use, free, bandwidth []float64
	// What holds of the last window. here: it was there. wants: it was limited, and used what this left it. harmed: it was harmed itself.
	here, wants, harmed bool
}

// add adds a window. A neighbour that was not there took nothing before.
func (p *past) add(use, free, bandwidth float64) {
	p.use, p.free, p.bandwidth = append(p.use, use), append(p.free, free), append(p.bandwidth, bandwidth)
}

// forget forgets the oldest windows.
func (p *past) forget(windows int) {
	for _, list := range []*[]float64{&p.use, &p.free, &p.bandwidth} {
		*list = append((*list)[:0], (*list)[windows:]...)
	}
}

// remember keeps the last residuals, and the use of neighbours beside them.
func (w *Watch) remember(residual float64, x *Window) {
	n, list := len(w.residuals), x.Neighbours
	w.residuals, w.windows = append(w.residuals, residual), append(w.windows, seen{x.Load, x.Signals})
	w.partial = max(w.partial-1, 0)
	if len(w.past)+len(list) > maxNeighbours { // where pods come and go quickly, those that are here go before those that were
		here := make(map[string]bool, len(list))
		for i := range list {
			here[list[i].Name] = true
		}
		maps.DeleteFunc(w.past, func(name string, _ *past) bool { return !here[name] })
		w.partial = w.params.Kept
	}
	for i := range list {
		p := w.past[list[i].Name]
		if p == nil && len(w.past) >= maxNeighbours || p != nil && len(p.use) > n {
			continue
		}
		if p == nil {
			p = &past{use: make([]float64, n), free: make([]float64, n), bandwidth: make([]float64, n)}
			w.past[list[i].Name] = p
		}
		use := orUnknown(list[i].Use)
		free := use
		if list[i].Limited {
			free = math.NaN()
		}
		p.add(use, free, orUnknown(list[i].Bandwidth))
		p.here, p.wants, p.harmed = true, list[i].Limited && list[i].Wants, list[i].Harmed
	}
	for _, p := range w.past {
		if len(p.use) == n { // it has gone
			p.add(0, 0, 0)
			p.here, p.wants, p.harmed = false, false, false
		}
	}
	if drop := len(w.residuals) - w.params.Kept; drop > 0 {
		w.residuals, w.windows = append(w.residuals[:0], w.residuals[drop:]...), append(w.windows[:0], w.windows[drop:]...)
		for name, p := range w.past {
			if p.forget(drop); !slices.ContainsFunc(p.use, func(u float64) bool { return u != 0 }) {
				delete(w.past, name)
			}
		}
	}
}

// recall takes a window in that was before the Watch began, or one that nobody saw. It is judged by what is usual, and nothing follows from it.
func (w *Watch) recall(x *Window) {
	residual := math.NaN()
	if x.Load >= 0 {
		residual, _ = w.residual(w.bin(x.Load), x)
	}
	w.remember(residual, x)
}

// orUnknown makes what is no amount unknown.
func orUnknown(v float64) float64 {
	if !(v >= 0) || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}
