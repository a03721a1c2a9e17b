package interference

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// history is what was read of the pods of the node in the last windows: what a Watch that begins anew has to know to name anybody. Its size is bounded, by windows and by pods.
type history struct {
	windows int
	pods    map[string][]row // each as long as windows, the newest last
	// partial: some pod was left out.
	partial bool
}

// The columns of a row. What a pod that is no service has of the last five is not known.
const (
	rowUse = iota
	rowFree
	rowBandwidth
	rowLoad
	rowSignals
	rowColumns = rowSignals + int(signals)
)

// row is what was read of a pod in a window. NaN is not known.
type row [rowColumns]float64

// absent is the row of a pod that was not there: it took nothing.
func absent() row { return rowOf(&Neighbour{}, nil) }

// unseen is the row of a window of which nothing is known.
func unseen() (r row) {
	for i := range r {
		r[i] = math.NaN()
	}
	return r
}

// rowOf is the row of a neighbour. x is what was seen of it as a service; nil: it is none.
func rowOf(n *Neighbour, x *Window) row {
	r := unseen()
	r[rowUse] = orUnknown(n.Use)
	if r[rowFree] = r[rowUse]; n.Limited {
		r[rowFree] = math.NaN()
	}
	r[rowBandwidth] = orUnknown(n.Bandwidth)
	if x != nil {
		r[rowLoad] = orUnknown(x.Load)
		for s := range signals {
			r[rowSignals+int(s)] = orUnknown(x.Signals[s])
		}
	}
	for i := range r {
		if r[i] > math.MaxFloat32 { // it is kept in fewer digits, and no amount
			r[i] = math.NaN()
		}
	}
	return r
}

// add adds a window: what was seen of all pods, and of those that are watched as services. most is how many windows are kept.
func (h *history) add(list []Neighbour, services map[string]*Window, most int) {
	if h.pods == nil {
		h.pods = make(map[string][]row)
	}
	for i := range list {
		n := &list[i]
		rows, known := h.pods[n.Name]
		if !known {
			if len(h.pods) >= maxNeighbours {
				h.partial = true
				continue
			}
			rows = slices.Repeat([]row{absent()}, h.windows)
		}
		h.pods[n.Name] = append(rows, rowOf(n, services[n.Name]))
	}
	h.end(absent(), most)
}

// skip adds windows of which nothing is known.
func (h *history) skip(windows, most int) {
	for range min(windows, most) {
		h.end(unseen(), most)
	}
}

// end ends a window: pods of which nothing was added have this row, and what is too old, or says nothing, is forgotten.
func (h *history) end(missing row, most int) {
	h.windows++
	drop := max(h.windows-most, 0)
	h.windows -= drop
	for id, rows := range h.pods {
		if len(rows) < h.windows+drop {
			rows = append(rows, missing)
		}
		rows = append(rows[:0], rows[drop:]...)
		if h.pods[id] = rows; !slices.ContainsFunc(rows, func(r row) bool { return r[rowUse] != 0 }) {
			delete(h.pods, id)
		}
	}
	h.partial = h.partial && len(h.pods) >= maxNeighbours
}

// show shows a Watch of a service what was before it began. It judges nothing: what it would have said then, it is too late to say.
func (h *history) show(w *Watch, id string) {
	own := h.pods[id]
	if len(own) == 0 {
		return
	}
	ids := slices.SortedFunc(maps.Keys(h.pods), cmp.Compare)
	for k := range h.windows {
		x := Window{Load: own[k][rowLoad]}
		copy(x.Signals[:], own[k][rowSignals:])
		for _, other := range ids {
			if r := h.pods[other][k]; other != id {
				x.Neighbours = append(x.Neighbours, Neighbour{Name: other, Use: r[rowUse], Bandwidth: r[rowBandwidth], Limited: math.IsNaN(r[rowFree])})
			}
		}
		w.recall(&x)
	}
	if h.partial {
		w.partial = w.params.Kept
	}
}
