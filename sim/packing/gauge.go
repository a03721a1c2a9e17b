package packing

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/schedule/fragment"
)

// gaugedKinds bounds the kinds of pods without GPUs that a gauge looks at, the most frequent ones.
const gaugedKinds = 64

// gauge measures how a cluster is packed. It does not depend on the policy.
type gauge struct {
	capacity    int64 // GPU thousandths
	of          binding
	cpu, memory int64
	gpus        *remembered     // of the common kinds with GPUs
	cpus        fragment.Target // the common kinds without
	excluded    []float64       // by node: the part of the kinds with GPUs that it could not run if it were empty
	least       float64         // the least of these, of nodes with GPUs
}

func newGauge(a *Arrivals, of binding) *gauge {
	g := &gauge{of: of, capacity: bindingGPU.capacity(a.nodes)}
	for i := range a.nodes {
		g.cpu += a.nodes[i].CPU
		g.memory += a.nodes[i].Memory
	}
	common := a.workload.Common(fragment.CommonCover)
	g.gpus = remember(only(common, func(r *fragment.Request) bool { return !r.GPU.IsZero() }))
	g.cpus = only(a.workload.Shares(), func(r *fragment.Request) bool { return r.GPU.IsZero() })
	slices.SortStableFunc(g.cpus, func(a, b fragment.Share) int { return cmp.Compare(b.Part, a.Part) })
	g.cpus = only(g.cpus[:min(len(g.cpus), gaugedKinds)], func(*fragment.Request) bool { return true })
	g.exclude(a.nodes, only(common, func(r *fragment.Request) bool { return !r.GPU.IsZero() }))
	return g
}

// exclude finds what no placement can help: of whatever is free on a node, kinds that ask for another model, or for more than the whole node has, cannot use anything. So fragmentation is
// never less than this part of what is free there; and of all that is free, wherever a policy leaves it, never less than the part of the best node.
func (g *gauge) exclude(nodes []fragment.Node, kinds fragment.Target) {
	known := make(map[fragment.Node]float64)
	g.least = 1
	for i := range nodes {
		n := nodes[i]
		part, ok := known[n]
		if !ok {
			for j := range kinds {
				if !n.Fits(&kinds[j].Request) {
					part += kinds[j].Part
				}
			}
			known[n] = part
		}
		g.excluded = append(g.excluded, part)
		if n.Shape.GPUs > 0 {
			g.least = min(g.least, part)
		}
	}
	if g.of != bindingGPU {
		g.least = 0
	}
}

// only takes the kinds that pass; their parts sum up to one again.
func only(list []fragment.Share, pass func(*fragment.Request) bool) fragment.Target {
	var kept fragment.Target
	sum := 0.0
	for i := range list {
		if pass(&list[i].Request) {
			kept = append(kept, list[i])
			sum += list[i].Part
		}
	}
	for i := range kept {
		kept[i].Part /= sum
	}
	return kept
}

// ChurnPoint is a moment of a run. All percents are of the whole cluster's GPUs, CPU or memory.
type ChurnPoint struct {
	Day       float64 `json:"day"`
	Allocated float64 `json:"allocated"`
	// Fragmented is what a pod with a GPU, drawn from the list, cannot use: FGD's measure, expected over those pods.
	Fragmented float64 `json:"fragmented"`
	// Excluded is the part of Fragmented that no placement on these nodes could help: what is free where such a pod asks for another model, or for more than the node has. It is known of GPUs alone.
	Excluded float64 `json:"excluded"`
	// Broken is free on GPUs that are held in part.
	Broken float64 `json:"broken"`
	CPU    float64 `json:"cpuAllocated"`
	Memory float64 `json:"memoryAllocated"`
	// CPUFragmented is free CPU that a pod without a GPU, drawn from the list, cannot use.
	CPUFragmented float64 `json:"cpuFragmented"`
	// MemoryFragmented is the same of memory.
	MemoryFragmented float64 `json:"memoryFragmented"`
	Running          int     `json:"running"`
	Moves            int     `json:"moves"`
}

func (g *gauge) read(nodes []fragment.Node) (p ChurnPoint) {
	free, broken, cpu, memory := int64(0), int64(0), int64(0), int64(0)
	lost, lostCPU, lostMemory, excluded := 0.0, 0.0, 0.0, 0.0
	for i := range nodes {
		n := &nodes[i]
		free += n.Free.Total(n.Shape)
		cpu += n.CPU
		memory += n.Memory
		for j := range n.Shape.GPUs {
			if f := n.Free[j]; f < 1000 {
				broken += int64(f)
			}
		}
		lost += g.gpus.fragmentation(n)
		excluded += g.excluded[i] * float64(n.Free.Total(n.Shape))
		for j := range g.cpus {
			if n.CPU < g.cpus[j].Request.CPU || n.Memory < g.cpus[j].Request.Memory {
				lostCPU += g.cpus[j].Part * float64(n.CPU)
				lostMemory += g.cpus[j].Part * float64(n.Memory)
			}
		}
	}
	part := func(x float64, of int64) float64 { return 100 * x / float64(max(of, 1)) }
	p.Allocated = part(float64(g.capacity-free), g.capacity)
	p.Fragmented, p.Broken = part(lost, g.capacity), part(float64(broken), g.capacity)
	p.Excluded = part(excluded, g.capacity)
	p.CPU, p.Memory = part(float64(g.cpu-cpu), g.cpu), part(float64(g.memory-memory), g.memory)
	p.CPUFragmented, p.MemoryFragmented = part(lostCPU, g.cpu), part(lostMemory, g.memory)
	switch g.of {
	case bindingGPU:
	case bindingCPU:
		p.Allocated, p.Fragmented, p.Excluded = p.CPU, p.CPUFragmented, 0
	case bindingMemory:
		p.Allocated, p.Fragmented, p.Excluded = p.Memory, p.MemoryFragmented, 0
	}
	return p
}
