package packing

import (
	"math"
	"math/rand/v2"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// How far a variant is from its workload: standard deviations of the logarithms of what a size's and a kind's frequencies are multiplied by, and
// by how many hundredths of a GPU an odd variant moves a size.
const (
	varySizes = 0.7
	varyKinds = 0.5
	varyParts = 10
)

// Vary makes another workload of one: kinds of pods are as frequent as the seed draws, and with an odd seed slices of GPUs have other sizes.
func Vary(w *trace.Workload, seed uint64) *trace.Workload {
	random := rand.New(rand.NewPCG(seed, 77))
	var kinds []*facts.Requirements
	count := make(map[*facts.Requirements]float64)
	for i := range w.Tasks {
		r := w.Tasks[i].Requirements
		if count[r] == 0 {
			kinds = append(kinds, r)
		}
		count[r]++
	}
	moved := make(map[int16]int16)
	bySize := make(map[int64]float64)
	weights := make([]float64, len(kinds))
	others := make([]*facts.Requirements, len(kinds))
	total := 0.0
	for i, r := range kinds {
		other := *r
		if milli := r.GPU.Milli; seed%2 == 1 && milli > 0 {
			if moved[milli] == 0 {
				to := int(milli) + (random.IntN(2*varyParts+1)-varyParts)*topology.FullGPU/100
				moved[milli] = int16(min(max(to, topology.FullGPU/20), topology.FullGPU*19/20))
			}
			other.GPU.Milli = moved[milli]
		}
		others[i] = &other
		size := r.GPU.Total()
		if bySize[size] == 0 {
			bySize[size] = math.Exp(random.NormFloat64() * varySizes)
		}
		weights[i] = count[r] * bySize[size] * math.Exp(random.NormFloat64()*varyKinds)
		total += weights[i]
	}
	varied := *w
	varied.Tasks = make([]trace.Task, len(w.Tasks))
	for i := range w.Tasks {
		at, k := random.Float64()*total, 0
		for ; k < len(weights)-1 && at >= weights[k]; k++ {
			at -= weights[k]
		}
		varied.Tasks[i] = w.Tasks[i]
		varied.Tasks[i].Requirements = others[k]
	}
	return &varied
}
