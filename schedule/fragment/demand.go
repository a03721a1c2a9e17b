package fragment

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// Demand is what pods want of the GPUs in the long run: what those that run hold, and what those that wait ask for. Pods that run long count as
// long as they run, so that it is by GPU hours; a Mix is by arrivals. The zero value is empty.
//
// Example: one pod in forty names the model V100. They run for months, so that in the long run they want all that there is of it.
type Demand struct {
	kinds map[demandKind]int64 // thousandths of GPUs
}

// demandKind is what decides which models can serve a pod.
type demandKind struct {
	models Models
	whole  int8
}

// Add counts so many pods; below 0: they are gone.
func (d *Demand) Add(r *Request, pods int64) {
	wanted := pods * r.GPU.Total()
	if wanted == 0 {
		return
	}
	if d.kinds == nil {
		d.kinds = make(map[demandKind]int64)
	}
	kind := demandKind{r.Models, r.GPU.Whole}
	if d.kinds[kind] += wanted; d.kinds[kind] == 0 {
		delete(d.kinds, kind)
	}
}

// bound is demand that not all tables can serve.
type bound struct {
	demandKind
	wanted float64
	tables []*priceTable
	size   float64 // of the tables
}

// scarcity finds how much of each table's GPUs is wanted by pods that not all tables can serve, were the cluster as full as can be: from 0 to 1. What
// the cluster lacks of being full is expected to come in the same proportions.
//
// The pods with the least choice take first, from the tables that they may use in proportion to what is left there.
func (m *Market) scarcity(d *Demand, nodes []Node) {
	byModel := make(map[string]*priceTable)
	capacity, wanted := int64(0), int64(0)
	for i := range nodes {
		s := &nodes[i].Shape
		if s.GPUs == 0 {
			continue
		}
		b := byModel[s.Model]
		if b == nil {
			b = m.tableOf(s.Model)
			byModel[s.Model] = b
		}
		b.capacity += float64(s.GPUs * topology.FullGPU)
		b.largest = max(b.largest, s.GPUs)
		capacity += int64(s.GPUs * topology.FullGPU)
	}
	for _, want := range d.kinds {
		wanted += want
	}
	for _, s := range m.bounds(d, max(1, float64(capacity)/float64(max(wanted, 1)))) {
		left := 0.0
		for _, b := range s.tables {
			left += max(b.capacity-b.bound, 0)
		}
		for _, b := range s.tables {
			rest := max(b.capacity-b.bound, 0)
			if s.wanted < left {
				rest = rest * s.wanted / left
			}
			b.bound += rest
		}
	}
}

// bounds lists the demand that not all tables can serve, multiplied by a factor: first what has the least choice.
func (m *Market) bounds(d *Demand, factor float64) (list []bound) {
	for kind, wanted := range d.kinds {
		s := bound{demandKind: kind, wanted: float64(wanted) * factor}
		for _, b := range m.tables {
			if b.largest >= int(kind.whole) && kind.models.Allows(b.models[0]) {
				s.tables = append(s.tables, b)
				s.size += b.capacity
			}
		}
		if len(s.tables) < len(m.tables) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b bound) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.models.list, b.models.list), cmp.Compare(a.whole, b.whole))
	})
	return list
}

// markUp makes GPUs worth more where they are scarce. What is bound counts by its cube: as long as there is enough of a model, pods that need not be there do
// no harm.
func (m *Market) markUp(d *Demand, nodes []Node) {
	if d == nil || len(m.tables) < 2 || m.Params.Scarcity == 0 {
		return
	}
	m.scarcity(d, nodes)
	for _, b := range m.tables {
		scarce := b.bound / max(b.capacity, 1)
		more := float64(m.Params.Scarcity * scarce * scarce * scarce)
		for f := range b.prices.free {
			for l := range levels {
				b.prices.free[f][l] += float64(more * float64(f*milliPerPart))
			}
		}
	}
}
