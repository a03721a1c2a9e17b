package packing

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// Policies for clusters without GPUs. They score as the scheduler does with these weights.
const (
	PolicySpread   = "spread"   // LeastAllocated and BalancedAllocation, as by default
	PolicyPacked   = "packed"   // MostAllocated
	PolicyCPUWorth = "cpuworth" // CPUWorth
)

// HostPolicies lists what is compared where there are no GPUs. FGD says nothing there.
func HostPolicies() []string {
	return []string{PolicySpread, PolicyPacked, PolicyBestFit, PolicyCPUWorth}
}

// WithoutGPUs is the part of a workload that has no GPUs: nodes, and pods, with their CPU and memory alone.
func WithoutGPUs(w *trace.Workload) *trace.Workload {
	part := &trace.Workload{Name: w.Name + " without GPUs"}
	for _, n := range w.Nodes {
		if n.GPU.GPUs == 0 {
			c := *n
			c.Allocatable = cpuAndMemory(n.Allocatable)
			part.Nodes = append(part.Nodes, &c)
		}
	}
	known := make(map[*facts.Requirements]*facts.Requirements)
	for i := range w.Tasks {
		t := w.Tasks[i]
		if !t.Requirements.GPU.IsZero() {
			continue
		}
		if known[t.Requirements] == nil {
			known[t.Requirements] = &facts.Requirements{Requests: cpuAndMemory(t.Requirements.Requests)}
		}
		t.Requirements = known[t.Requirements]
		if len(t.Requirements.Requests) > 0 {
			part.Tasks = append(part.Tasks, t)
		}
	}
	return part
}

func cpuAndMemory(of []resource.Quantity) (list []resource.Quantity) {
	for _, q := range of {
		if q.Name == resource.NameCPU || q.Name == resource.NameMemory {
			list = append(list, q)
		}
	}
	return list
}

// binding is the resource that a load is a part of: GPUs where there are any, else CPU or memory, whichever the pods want the larger part of.
type binding uint8

const (
	bindingGPU binding = iota
	bindingCPU
	bindingMemory
)

// amount is how much of it a pod asks for.
func (b binding) amount(r *fragment.Request) int64 {
	switch b {
	case bindingCPU:
		return r.CPU
	case bindingMemory:
		return r.Memory
	default:
		return r.GPU.Total()
	}
}

// capacity is how much of it the nodes have.
func (b binding) capacity(nodes []fragment.Node) (sum int64) {
	for i := range nodes {
		n := &nodes[i]
		switch b {
		case bindingCPU:
			sum += n.CPU
		case bindingMemory:
			sum += n.Memory
		default:
			sum += int64(n.Shape.GPUs) * topology.FullGPU
		}
	}
	return sum
}

// byShares scores nodes by the shares in use.
type byShares struct {
	a       *Arrivals
	nodes   []fragment.Node
	empty   []fragment.Node
	spreads bool
}

func (b *byShares) see(int32) bool       { return false }
func (b *byShares) changed(int)          {}
func (b *byShares) holds(int32, int64)   {}
func (b *byShares) answered(int32, bool) {}

func (b *byShares) score(node int, kind int32) (float64, int, bool) {
	n, r := &b.nodes[node], &b.a.kinds[kind]
	if !n.Fits(r) {
		return 0, 0, false
	}
	_, gpu, _ := fragment.Gradient(n, r, func(*fragment.Node) float64 { return 0 })
	all := &b.empty[node]
	used := func(c, m int64) (float64, float64) {
		return 1 - float64(c)/float64(max(all.CPU, 1)), 1 - float64(m)/float64(max(all.Memory, 1))
	}
	cpu, memory := used(n.CPU-r.CPU, n.Memory-r.Memory)
	if !b.spreads {
		return -(cpu + memory) / 2, gpu, true
	}
	c, m := used(n.CPU, n.Memory)
	apart := func(a, b float64) float64 { return max(a-b, b-a) / 2 }
	balanced := 0.5 + (0.5+apart(c, m)-apart(cpu, memory))/2
	return (cpu+memory)/2 - balanced, gpu, true
}
