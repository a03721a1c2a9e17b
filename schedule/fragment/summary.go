package fragment

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// Sizes are the requests that a GPUSummary is measured by, in thousandths of a GPU: parts of one, and whole ones on one node.
var Sizes = [...]int32{
	250, 500, 1000, 2000, 4000, 8000,
}

const (
	// MaxModels is the most GPU models that a GPUSummary keeps apart. GPUs of any more are counted together, as OtherModels.
	MaxModels = 64
	// OtherModels stands for all further models; no model has that name.
	OtherModels = "(other)"
)

// GPUSummary is what is free of GPUs by model, and how much of that pods of the Sizes could use. It needs no mix. The zero value has seen no node.
type GPUSummary struct {
	models map[string]*ModelSummary
	last   *ModelSummary // of the last node: most nodes are like the one before
}

// ModelSummary is what is left of the GPUs of one model.
type ModelSummary struct {
	Model string
	// GPUs is how many there are. Each is one of the five that follow: Idle ones can be given whole; of Shared ones something is held and
	// something left; Divided ones have MIG instances, at least one of them free; Held ones have nothing free; Closed ones give nothing new.
	GPUs, Idle, Shared, Divided, Held, Closed int
	// Left is the free thousandths of GPUs that are not closed.
	Left int64
	// Useless is, for each of the Sizes, the thousandths of Left that a pod of that size could not use: those on a GPU that would not give a part
	// so large; for whole GPUs those of nodes with too few idle ones, and of GPUs that are not idle. This is what FGD calls
	// the fragmentation for one kind of request that asks for no CPU.
	Useless [len(Sizes)]int64
	// Fits is, for each of the Sizes, how many pods of that size the GPUs would hold, if no pod of another size came, and CPU, memory of either
	// kind and isolation were no matter.
	Fits [len(Sizes)]int64
}

// Fragmentation is the part of Left that a pod of Sizes[size] could not use, 0 to 1. False: nothing is left, so that there is no such part.
func (m *ModelSummary) Fragmentation(size int) (float64, bool) {
	if m.Left == 0 {
		return 0, false
	}
	return float64(m.Useless[size]) / float64(m.Left), true
}

// Add takes in a node.
func (r *GPUSummary) Add(v *topology.View) {
	count := v.GPUs()
	if count == 0 {
		return
	}
	m := r.model(v.Shape.Model)
	m.GPUs += count
	idle, left := 0, int64(0)
	for i := range count {
		rest := v.Rest(i)
		m.state(v, i, &rest)
		if rest.Closed {
			continue
		}
		left += int64(rest.Left)
		if rest.Whole {
			idle++
		}
		for size := 0; Sizes[size] < topology.FullGPU; size++ {
			if rest.Part < Sizes[size] {
				m.Useless[size] += int64(rest.Left)
			} else {
				m.Fits[size] += partsOf(v, i, &rest, Sizes[size])
			}
		}
	}
	m.Left += left
	for size := range Sizes {
		if each := int(Sizes[size] / topology.FullGPU); each > 0 {
			m.Useless[size] += left
			if idle >= each {
				m.Useless[size] -= int64(idle) * topology.FullGPU
				m.Fits[size] += int64(idle / each)
			}
		}
	}
}

// state counts a GPU under what it is.
func (m *ModelSummary) state(v *topology.View, i int, rest *topology.GPURest) {
	switch d := v.Shape.Devices; {
	case rest.Closed:
		m.Closed++
	case rest.Whole:
		m.Idle++
	case rest.Left == 0:
		m.Held++
	case d != nil && len(d.GPU[i].Instances) > 0:
		m.Divided++
	default:
		m.Shared++
	}
}

// partsOf is how many parts of a size a GPU gives.
func partsOf(v *topology.View, i int, rest *topology.GPURest, size int32) (n int64) {
	d := v.Shape.Devices
	if d == nil || len(d.GPU[i].Instances) == 0 {
		return min(int64(rest.Left/size), int64(rest.Parts))
	}
	for k := range min(len(d.GPU[i].Instances), topology.MaxInstances) {
		if int32(d.GPU[i].Instances[k].Milli) >= size && !v.Devices.HoldsInstance(i, k) {
			n++
		}
	}
	return n
}

// model returns the counts of a model.
func (r *GPUSummary) model(name string) *ModelSummary {
	if r.last != nil && r.last.Model == name {
		return r.last
	}
	m := r.models[name]
	if m == nil && len(r.models) >= MaxModels {
		name = OtherModels
		m = r.models[name]
	}
	if m == nil {
		if r.models == nil {
			r.models = make(map[string]*ModelSummary)
		}
		m = &ModelSummary{Model: name}
		r.models[name] = m
	}
	r.last = m
	return m
}

// Models lists the models by name.
func (r *GPUSummary) Models() []*ModelSummary {
	list := make([]*ModelSummary, 0, len(r.models))
	for _, m := range r.models {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *ModelSummary) int { return cmp.Compare(a.Model, b.Model) })
	return list
}
