package packing

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// demand is how many pieces of one size are asked for.
type demand struct {
	size   int // thousandths of a GPU
	placed int // by pods that are placed in any case
	all    int
}

// bound is the most GPU thousandths that any policy could have allocated, were pods moved without limit, if all pods before one arrival are placed.
// Which of the later ones it takes is free. Pieces have to fit on GPUs; CPU, memory, models and nodes are left out, so the truth may be lower.
func (a *Arrivals) bound(before int) float64 {
	bySize := make(map[int]*demand)
	for i, kind := range a.pods {
		gpu := a.kinds[kind].GPU
		if gpu.IsZero() {
			continue
		}
		size, count := int(gpu.Milli), 1
		if gpu.Milli == 0 {
			size, count = topology.FullGPU, int(gpu.Whole)
		}
		d := bySize[size]
		if d == nil {
			d = &demand{size: size}
			bySize[size] = d
		}
		d.all += count
		if i < before {
			d.placed += count
		}
	}
	demands := make([]demand, 0, len(bySize))
	for _, d := range bySize {
		demands = append(demands, *d)
	}
	slices.SortFunc(demands, func(a, b demand) int { return cmp.Compare(a.size, b.size) })
	return ceiling(demands, int(a.capacity/topology.FullGPU))
}

// MaxPatterns is how many ways to cut a GPU are found before a bound is taken as it is.
const MaxPatterns = 400

// ceiling bounds what fits on so many GPUs. The linear program over ways to cut a GPU is solved by finding ways as they are needed (Gilmore and
// Gomory 1961). What is returned is not its value but what its prices prove, so that a solution that is not exact makes the bound only weaker.
func ceiling(demands []demand, gpus int) float64 {
	// Rows: for each size, no more pieces than are cut; of them those that are placed in any case; the others; and the GPUs.
	sizes := len(demands)
	rhs := make([]float64, 3*sizes+1)
	total := 0.0
	for i, d := range demands {
		rhs[sizes+i], rhs[2*sizes+i] = float64(d.placed), float64(d.all-d.placed)
		total += float64(d.size * d.all)
	}
	rhs[3*sizes] = float64(gpus)
	t := newTableau(rhs)
	for i, d := range demands {
		t.add(unit(len(rhs), i, sizes+i), float64(d.size+must*topology.FullGPU))
		t.add(unit(len(rhs), i, 2*sizes+i), float64(d.size))
	}
	least := total
	for range MaxPatterns {
		t.solve()
		prices := t.prices()[:sizes]
		worth, pattern := cut(demands, prices)
		proven := worth * float64(gpus)
		for i, d := range demands {
			gain := float64(d.size) - prices[i]
			proven += max(gain*float64(d.placed), gain*float64(d.all))
		}
		least = min(least, proven)
		if worth <= t.prices()[3*sizes]+tolerance {
			break
		}
		column := make([]float64, len(rhs))
		for i, count := range pattern {
			column[i] = -float64(count)
		}
		column[3*sizes] = 1
		t.add(column, 0)
	}
	return least
}

// must is how much more, in GPUs, a piece counts that is placed in any case: more than what it could keep others from.
const must = 5

// tolerance is for sums of floating-point numbers.
const tolerance = 1e-6

// unit is a column with ones in two rows.
func unit(rows, i, j int) []float64 {
	c := make([]float64, rows)
	c[i], c[j] = 1, 1
	return c
}

// cut finds the pieces of a GPU that are worth most.
func cut(demands []demand, prices []float64) (worth float64, pattern []int) {
	var best [topology.FullGPU + 1]float64
	var last [topology.FullGPU + 1]int
	for free := range best {
		last[free] = -1
		if free > 0 {
			best[free] = best[free-1]
		}
		for i, d := range demands {
			if d.size > free {
				break
			}
			if w := prices[i] + best[free-d.size]; w > best[free] {
				best[free], last[free] = w, i
			}
		}
	}
	pattern = make([]int, len(demands))
	for free := topology.FullGPU; free > 0; {
		if i := last[free]; i >= 0 {
			pattern[i]++
			free -= demands[i].size
		} else {
			free--
		}
	}
	return best[topology.FullGPU], pattern
}
